"""Stores as earlier versions wrote them: chunks with checksums, but no manifests, hashes and heads."""

import json
import zlib
from pathlib import Path
from typing import Any

from calibdask.storage.manifest import IDENTITY, MANIFEST


def downgraded_group(folder: Path) -> dict[str, int]:
    """Take the manifest of a Zarr group away; the checksums of the metadata of its arrays."""
    sums = {}
    for path in sorted(folder.glob("*/zarr.json")):
        metadata = json.loads(path.read_text())
        metadata.pop(IDENTITY, None)
        path.write_text(json.dumps(metadata, indent=2))
        sums[path.parent.name] = zlib.crc32(path.read_bytes())
    own = folder / "zarr.json"
    group = json.loads(own.read_text())
    plain = {name: value for name, value in group["attributes"].items() if name != MANIFEST}
    checksum = zlib.crc32(json.dumps(plain, sort_keys=True).encode())
    group["attributes"] = {**plain, MANIFEST: {"attributes": checksum, "arrays": sums}}
    own.write_text(json.dumps(group, indent=2))
    return sums


def downgraded_periods(store: Path) -> None:
    """The same of a store of periods and its log."""
    names: dict[str, Any] = {"format", "id", "date", "calibdask_version", "dimension", "action", "reason", "removed"}
    for path in sorted((store / "log").iterdir()):
        record = json.loads(path.read_bytes().partition(b"\n")[0])
        old = {name: value for name, value in record.items() if name in names} | {"format": 1, "added": []}
        for period in record["added"]:
            kept = {name: value for name, value in period.items() if name not in ("manifest", "totals_hashes")}
            old["added"].append(kept | {"sums": downgraded_group(store / period["folder"])})
        line = json.dumps(old).encode()
        path.write_bytes(line + b"\n" + json.dumps({"crc32": zlib.crc32(line)}).encode() + b"\n")
    (store / "zarr.json").write_text(
        json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {"calibdask_periods": 1}})
    )
