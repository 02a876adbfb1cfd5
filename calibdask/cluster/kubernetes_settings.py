"""What a cluster on Kubernetes is to be: names, sizes, secrets."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, get_type_hints

__all__ = ["Autoscaling", "KubernetesSettings", "Resources"]

_KEY = "calibdask.kubernetes"
# Dask's operator makes names of up to 33 letters more out of it (NAME-default-worker-0123456789, and a random end for
# `calibdask run --cluster kubernetes`), and 63 are allowed.
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,28}[a-z0-9])?")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_QUANTITY = re.compile(r"\d+(\.\d+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?")
_PULLING = ("Always", "IfNotPresent", "Never")


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What a container asks for, and may take at most.

    Parameters
    ----------
    cpu, memory : str
        Asked for, as Kubernetes writes quantities: ``500m``, ``2``; ``512Mi``, ``4Gi``.
    cpu_limit, memory_limit : str, optional
        At most; "": as much as asked for.

    Raises
    ------
    ValueError
        If one is no quantity.
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
        """As a container has it."""
        limits = {"cpu": self.cpu_limit or self.cpu, "memory": self.memory_limit or self.memory}
        return {"requests": {"cpu": self.cpu, "memory": self.memory}, "limits": limits}


@dataclass(frozen=True, kw_only=True)
class Autoscaling:
    """Between how many workers there may be, and the use of their processors, in per cent, that is aimed at.

    The operator asks the scheduler how many workers its tasks need, and does not look at processors.

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
        Image with calibdask in it, the same version as here (``deploy/Dockerfile``).
    name : str, default "calibdask"
        Of the cluster; the scheduler is reached as ``NAME-scheduler``.
    namespace : str, default "default"
        Where it is; there already.
    tls_secret : str
        Secret with ``ca.pem``, ``node.pem`` and ``node-key.pem``, as ``calibdask certs`` makes them.
    insecure : bool, default False
        Allow a cluster without TLS: whoever reaches its ports runs any code in it.
    store_secret : str
        Secret whose keys are variables of the environment with the credentials of an object store
        (``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``, ``AWS_ENDPOINT_URL``, ...); "": none.
    workers : int, default 2
        How many pods; with `autoscaling`, at the beginning.
    threads : int, default 1
        Of each worker.
    scheduler, worker, client : Resources
        What each asks for.
    autoscaling : Autoscaling, optional
        Between how many workers; None: always `workers`.
    operator : bool, default False
        Whether Dask's operator makes the pods (DaskCluster, DaskJob) instead of Deployments.
    operator_namespace : str
        Where the operator runs. It asks the scheduler over plain HTTP how many workers there should be, and no other
        namespace may do so; with `operator` and `autoscaling` only.
    clients : mapping
        Labels of pods in the namespace that may reach the scheduler besides those of this cluster (notebooks, ...).
    environment : mapping
        Further variables of the scheduler, the workers and the client, by name.
    pull_policy : str, default "IfNotPresent"
        When the image is pulled.
    pull_secret : str
        Secret with the credentials of the image's registry; "": none.
    user : int, default 1000
        Number of the user, and of the group, that all processes have; not 0.
    scratch : str, default "4Gi"
        Size of the only folder that processes may write to: data spilled from memory, compiled kernels.

    Raises
    ------
    ValueError
        If it cannot be so; if there is no TLS and it is not insecure.

    Examples
    --------
    >>> settings = KubernetesSettings(image="registry.example/calibdask:0.1.0", tls_secret="calibdask-tls", workers=4)
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
    operator: bool = False
    operator_namespace: str = ""
    clients: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    pull_policy: str = "IfNotPresent"
    pull_secret: str = ""
    user: int = 1000
    scratch: str = "4Gi"

    PORT: ClassVar[int] = 8786

    def __post_init__(self) -> None:
        for problem in self._problems():
            raise ValueError(problem)

    def _problems(self) -> Any:
        if not self.image or self.image != "".join(self.image.split()):
            yield f"image expects the name of an image such as registry.example/calibdask:0.1.0, got {self.image!r}."
        if not _NAME.fullmatch(self.name):
            yield f"name expects at most 30 of a-z, 0-9 and -, from a letter on, got {self.name!r}."
        if not _LABEL.fullmatch(self.namespace):
            yield f"namespace expects at most 63 of a-z, 0-9 and -, got {self.namespace!r}."
        for name in ("tls_secret", "store_secret", "pull_secret"):
            if (value := getattr(self, name)) and not _SUBDOMAIN.fullmatch(value):
                yield f"{name} expects the name of a secret (a-z, 0-9, - and .), got {value!r}."
        if not self.tls_secret and not self.insecure:
            yield (
                "tls_secret expects the name of a secret with certificates: without them whoever reaches the ports of "
                "the cluster runs any code in it. Make them by 'calibdask certs FOLDER', or say insecure."
            )
        if self.tls_secret and self.insecure:
            yield "insecure expects no tls_secret; leave out one of the two."
        if self.workers < 1 or self.threads < 1:
            yield f"workers and threads expect at least 1, got {self.workers} and {self.threads}."
        if self.autoscaling and not self.autoscaling.minimum <= self.workers <= self.autoscaling.maximum:
            yield (
                f"workers expects a number between those of autoscaling, {self.autoscaling.minimum} and "
                f"{self.autoscaling.maximum}, got {self.workers}."
            )
        if self.operator and self.autoscaling and not _LABEL.fullmatch(self.operator_namespace):
            yield (
                "operator_namespace expects the namespace of Dask's operator where it scales workers: nobody else may "
                f"reach the port on which it asks the scheduler, got {self.operator_namespace!r}."
            )
        if self.pull_policy not in _PULLING:
            yield f"pull_policy expects one of {', '.join(_PULLING)}, got {self.pull_policy!r}."
        if self.user < 1:
            yield f"user expects the number of a user that is not root, got {self.user}."
        if not _QUANTITY.fullmatch(self.scratch):
            yield f"scratch expects a quantity such as 4Gi, got {self.scratch!r}."

    @property
    def protocol(self) -> str:
        """``tls`` or ``tcp``."""
        return "tls" if self.tls_secret else "tcp"

    @property
    def address(self) -> str:
        """Of the scheduler, in its namespace."""
        return f"{self.protocol}://{self.name}-scheduler:{self.PORT}"

    @classmethod
    def from_configuration(cls, **changes: Any) -> "KubernetesSettings":
        """What Dask's configuration says at ``calibdask.kubernetes`` (``deploy/kubernetes/dask.yaml``).

        Parameters
        ----------
        **changes
            Fields that are so whatever the configuration says.

        Raises
        ------
        ValueError
            If it has no image, a key that is not known, or a value of another type.

        Examples
        --------
        >>> import dask
        >>> with dask.config.set({"calibdask.kubernetes": {"image": "calibdask:0.1.0", "tls-secret": "calibdask-tls"}}):
        ...     KubernetesSettings.from_configuration(workers=3).workers
        3
        """
        import dask

        given = {**_named(dask.config.get(_KEY, None) or {}, _KEY), **changes}
        if not given.get("image"):
            raise ValueError(
                f"Kubernetes expects {_KEY}.image in Dask's configuration: copy deploy/kubernetes/dask.yaml to a "
                "folder that Dask reads (~/.config/dask, or that of DASK_CONFIG), and fill it in."
            )
        return cls(**_typed(cls, given, _KEY))


def _named(given: Any, where: str) -> dict[str, Any]:
    """Keys as fields have them; Dask takes ``tls-secret`` and ``tls_secret`` for the same."""
    if not isinstance(given, Mapping):
        raise ValueError(f"{where} expects keys and values, got {given!r}.")
    return {str(key).replace("-", "_"): value for key, value in given.items()}


def _typed(kind: Any, given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Values of fields, each of the type that the field has."""
    known = {each.name: each.default for each in fields(kind)}
    if unknown := [key for key in given if key not in known]:
        raise ValueError(f"{where} has no {', '.join(unknown)}; it has {', '.join(known)}.")
    types = get_type_hints(kind)
    return {key: _value(types[key], value, f"{where}.{key}", known[key]) for key, value in given.items()}


def _value(kind: Any, value: Any, where: str, default: Any) -> Any:
    nested = {Resources: Resources, Autoscaling | None: Autoscaling}.get(kind)
    if nested is not None:
        if value is None or isinstance(value, nested):
            return value
        # What is not said of a worker's resources is as that of a worker.
        return replace(default or nested(), **_typed(nested, _named(value, where), where))
    if kind is str and type(value) in (int, float):
        # YAML takes cpu: 2 for a number.
        return str(value)
    if kind in (str, int, bool):
        if type(value) is not kind:
            raise ValueError(f"{where} expects {kind.__name__}, got {value!r}.")
        return value
    if not isinstance(value, Mapping):
        raise ValueError(f"{where} expects names and values, got {value!r}.")
    return {str(name): str(each) for name, each in value.items()}
