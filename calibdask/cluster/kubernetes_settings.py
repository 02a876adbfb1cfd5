"""Settings of a cluster on Kubernetes: names, sizes, secrets."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, get_type_hints

_KEY = "calibdask.kubernetes"
# Host names are limited to 63 characters, and those of pods append to it (NAME-1a2b3c-worker-0123456789-abcde).
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,28}[a-z0-9])?")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_QUANTITY = re.compile(r"\d+(\.\d+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Resource requests and limits of a container.

    Parameters
    ----------
    cpu, memory : str
        Requests, as Kubernetes writes quantities: ``500m``, ``2``; ``512Mi``, ``4Gi``.
    cpu_limit, memory_limit : str, optional
        Limits; "": the same as the request.

    Raises
    ------
    ValueError
        If one is not a quantity.
    """

    cpu: str = "1"
    memory: str = "2Gi"
    cpu_limit: str = ""
    memory_limit: str = ""

    def __post_init__(self) -> None:
        for name in ("cpu", "memory", "cpu_limit", "memory_limit"):
            value = getattr(self, name)
            if not _QUANTITY.fullmatch(value) and not (value == "" and name.endswith("_limit")):
                raise ValueError(f"{name} expects a quantity such as 500m, 2 or 4Gi, got {value!r}.")

    @property
    def manifest(self) -> dict[str, Any]:
        """The ``resources`` of a container."""
        limits = {"cpu": self.cpu_limit or self.cpu, "memory": self.memory_limit or self.memory}
        return {"requests": {"cpu": self.cpu, "memory": self.memory}, "limits": limits}


@dataclass(frozen=True, kw_only=True)
class Autoscaling:
    """Bounds of the number of workers, and the CPU utilisation to aim for, in per cent.

    Raises
    ------
    ValueError
        Unless 1 <= minimum <= maximum and 1 <= cpu_percent <= 100.
    """

    minimum: int = 1
    maximum: int = 10
    cpu_percent: int = 70

    def __post_init__(self) -> None:
        if not 1 <= self.minimum <= self.maximum:
            raise ValueError(f"autoscaling expects 1 <= minimum <= maximum, got {self.minimum} and {self.maximum}.")
        if not 1 <= self.cpu_percent <= 100:
            raise ValueError(f"cpu_percent expects a number from 1 to 100, got {self.cpu_percent}.")


@dataclass(frozen=True, kw_only=True)
class KubernetesSettings:
    """A scheduler and its workers on Kubernetes.

    Parameters
    ----------
    image : str
        Image with the same version of calibdask as here (``deploy/Dockerfile``).
    name : str, default "calibdask"
        Name of the cluster; the service of the scheduler is ``NAME-scheduler``.
    namespace : str, default "default"
        An existing namespace.
    tls_secret : str
        Secret with ``ca.pem``, ``node.pem`` and ``node-key.pem``, as created by ``calibdask certs``.
    insecure : bool, default False
        Allow a cluster without TLS: anybody who reaches its ports can run any code in it.
    store_secret : str
        Secret whose keys are variables of the environment with the credentials of an object store
        (``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``, ``AWS_ENDPOINT_URL``, ...); "": none.
    workers : int, default 2
        Number of worker pods; with `autoscaling`, the initial one.
    threads : int, default 1
        Threads per worker.
    scheduler, worker, client : Resources
        Their requests and limits.
    autoscaling : Autoscaling, optional
        Bounds of the number of workers; None: always `workers`.
    clients : mapping
        Labels of further pods in the namespace that may reach the scheduler (notebooks, ...).
    environment : mapping
        Further environment variables of the scheduler, the workers and the client, by name.
    pull_policy : str, default "IfNotPresent"
        When the image is pulled.
    pull_secret : str
        Secret with the credentials of the image's registry; "": none.
    user : int, default 1000
        ID of the user and of the group of all processes; not 0.
    scratch : str, default "4Gi"
        Size of the only writable folder, for data spilled from memory and compiled kernels.
    patience : int, default 900
        Seconds to wait for the scheduler, and for the first worker, including their images and nodes that are started
        for them; and for another worker when all are lost.

    Raises
    ------
    ValueError
        If a value is invalid; if there is neither TLS nor `insecure`.

    Examples
    --------
    >>> settings = KubernetesSettings(image="registry.example/calibdask:1.0.0rc1", tls_secret="dask-tls", workers=4)
    >>> settings.address
    'tls://calibdask-scheduler:8786'
    """

    image: str
    name: str = "calibdask"
    namespace: str = "default"
    tls_secret: str = ""
    insecure: bool = False
    store_secret: str = ""
    workers: int = 2
    threads: int = 1
    scheduler: Resources = Resources()
    worker: Resources = Resources(memory="4Gi")
    client: Resources = Resources()
    autoscaling: Autoscaling | None = None
    clients: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    pull_policy: str = "IfNotPresent"
    pull_secret: str = ""
    user: int = 1000
    scratch: str = "4Gi"
    patience: int = 900

    PORT: ClassVar[int] = 8786

    def __post_init__(self) -> None:
        for problem in self._problems():
            raise ValueError(problem)

    def _problems(self) -> Any:
        if not self.image or self.image != "".join(self.image.split()):
            yield f"image expects the name of an image such as registry.example/calibdask:1.0.0rc1, got {self.image!r}."
        if not _NAME.fullmatch(self.name):
            yield f"name expects at most 30 of a-z, 0-9 and -, starting with a letter, got {self.name!r}."
        if not _LABEL.fullmatch(self.namespace):
            yield f"namespace expects at most 63 of a-z, 0-9 and -, got {self.namespace!r}."
        for name in ("tls_secret", "store_secret", "pull_secret"):
            if (value := getattr(self, name)) and not _SUBDOMAIN.fullmatch(value):
                yield f"{name} expects the name of a secret (a-z, 0-9, - and .), got {value!r}."
        if not self.tls_secret and not self.insecure:
            yield (
                "tls_secret expects the name of a secret with certificates: without them anybody who reaches the ports "
                "of the cluster can run any code in it. Create them with 'calibdask certs FOLDER', or set insecure."
            )
        if self.tls_secret and self.insecure:
            yield "insecure expects no tls_secret; leave out one of the two."
        if self.workers < 1 or self.threads < 1:
            yield f"workers and threads expect at least 1, got {self.workers} and {self.threads}."
        if self.autoscaling and not self.autoscaling.minimum <= self.workers <= self.autoscaling.maximum:
            yield (
                f"workers expects a number between the bounds of autoscaling, {self.autoscaling.minimum} and "
                f"{self.autoscaling.maximum}, got {self.workers}."
            )
        if self.pull_policy not in _PULL_POLICIES:
            yield f"pull_policy expects one of {', '.join(_PULL_POLICIES)}, got {self.pull_policy!r}."
        if self.user < 1:
            yield f"user expects the ID of a user that is not root, got {self.user}."
        if self.patience < 1:
            yield f"patience expects a number of seconds from 1 on, got {self.patience}."
        if not _QUANTITY.fullmatch(self.scratch):
            yield f"scratch expects a quantity such as 4Gi, got {self.scratch!r}."

    @property
    def protocol(self) -> str:
        """``tls`` or ``tcp``."""
        return "tls" if self.tls_secret else "tcp"

    @property
    def address(self) -> str:
        """Address of the scheduler inside its namespace."""
        return f"{self.protocol}://{self.name}-scheduler:{self.PORT}"

    @classmethod
    def from_configuration(cls, **changes: Any) -> "KubernetesSettings":
        """Settings from Dask's configuration at ``calibdask.kubernetes`` (``deploy/kubernetes/dask.yaml``).

        Parameters
        ----------
        **changes
            Fields that override the configuration.

        Raises
        ------
        ValueError
            If there is no image, an unknown key, or a value of the wrong type.

        Examples
        --------
        >>> import dask
        >>> configured = {"image": "calibdask:1.0.0rc1", "tls-secret": "calibdask-tls"}
        >>> with dask.config.set({"calibdask.kubernetes": configured}):
        ...     KubernetesSettings.from_configuration(workers=3).workers
        3
        """
        import dask

        values = {**_field_names(dask.config.get(_KEY, None) or {}, _KEY), **changes}
        if not values.get("image"):
            raise ValueError(
                f"Kubernetes expects {_KEY}.image in Dask's configuration: copy deploy/kubernetes/dask.yaml to a "
                "folder that Dask reads (~/.config/dask, or that of DASK_CONFIG), and fill it in."
            )
        return cls(**_typed(cls, values, _KEY))


def _field_names(section: Any, where: str) -> dict[str, Any]:
    """A section with the names of fields as keys; Dask treats ``tls-secret`` and ``tls_secret`` alike."""
    if not isinstance(section, Mapping):
        raise ValueError(f"{where} expects keys and values, got {section!r}.")
    return {str(key).replace("-", "_"): value for key, value in section.items()}


def _typed(kind: Any, values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Values converted to the types of their fields."""
    defaults = {item.name: item.default for item in fields(kind)}
    if unknown := [key for key in values if key not in defaults]:
        raise ValueError(f"{where} has no {', '.join(unknown)}; it has {', '.join(defaults)}.")
    types = get_type_hints(kind)
    return {key: _value(types[key], value, f"{where}.{key}", defaults[key]) for key, value in values.items()}


def _value(kind: Any, value: Any, where: str, default: Any) -> Any:
    nested = {Resources: Resources, Autoscaling | None: Autoscaling}.get(kind)
    if nested is not None:
        if value is None or isinstance(value, nested):
            return value
        # Unset resources keep the defaults of this kind of container.
        return replace(default or nested(), **_typed(nested, _field_names(value, where), where))
    if kind is str and type(value) in (int, float):
        # YAML reads cpu: 2 as a number.
        return str(value)
    if kind in (str, int, bool):
        if type(value) is not kind:
            raise ValueError(f"{where} expects {kind.__name__}, got {value!r}.")
        return value
    if not isinstance(value, Mapping):
        raise ValueError(f"{where} expects names and values, got {value!r}.")
    return {str(name): str(text) for name, text in value.items()}
