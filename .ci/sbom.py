"""Writes sbom.cdx.json and third-party.txt into a folder; reads `cargo metadata` from standard input."""

import json
import pathlib
import re
import sys
import tomllib

WORDS = re.compile(r"^(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)

folder = pathlib.Path(sys.argv[1])
metadata = json.load(sys.stdin)
packages = {package["id"]: package for package in metadata["packages"]}
nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
checksums = {
    (package["name"], package["version"]): package.get("checksum")
    for package in tomllib.loads(pathlib.Path("Cargo.lock").read_text())["package"]
}

# Crates that a program holds: neither those of tests, nor those that only compile others.
root = metadata["resolve"]["root"]
links, waiting = {}, [root]
while waiting:
    at = waiting.pop()
    if at in links:
        continue
    is_linked = lambda link: any(kind["kind"] is None for kind in link["dep_kinds"])
    links[at] = sorted(link["pkg"] for link in nodes[at]["deps"] if is_linked(link))
    waiting += links[at]
# The crates of this workspace are the program.
ours = set(metadata["workspace_members"])
links[root] = sorted({at for one in ours & links.keys() for at in links[one]} - ours)
for one in ours - {root}:
    links.pop(one, None)
crates = sorted((packages[at] for at in links if at != root), key=lambda of: (of["name"], of["version"]))


def purl(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def expression(package):
    return (package["license"] or "").replace("/", " OR ")


def component(package):
    of = {
        "type": "library",
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "licenses": [{"expression": expression(package)}],
        "purl": purl(package),
    }
    checksum = checksums.get((package["name"], package["version"]))
    if checksum:
        of["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return of


program = packages[root]
described = {
    "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
    "bomFormat": "CycloneDX",
    "specVersion": "1.6",
    "version": 1,
    "metadata": {"component": component(program) | {"type": "application"}},
    "components": [component(package) for package in crates],
    "dependencies": [
        {"ref": purl(packages[at]), "dependsOn": sorted(purl(packages[to]) for to in links[at])}
        for at in sorted(links, key=lambda at: purl(packages[at]))
    ],
}
(folder / "sbom.cdx.json").write_text(json.dumps(described, indent=1) + "\n")


def texts(package):
    """Licence texts of a crate. Of MIT or another licence we take MIT, whose text is shorter."""
    home = pathlib.Path(package["manifest_path"]).parent
    found = sorted(file for file in home.rglob("*") if WORDS.match(file.name) and file.is_file() and len(file.relative_to(home).parts) <= 2)
    found = [file for file in found if file.suffix.lower() in ("", ".txt", ".md") or file.suffix[1:].isupper()]
    if " OR " in expression(package) and "MIT" in expression(package):
        mit = [file for file in found if "MIT" in file.name.upper()]
        found = [*mit, *(file for file in found if file.name.upper().startswith("NOTICE"))] if mit else found
    return ["\n".join(line.rstrip() for line in file.read_text(errors="replace").strip().splitlines()) for file in found]


holders, without = {}, []
for package in crates:
    own = texts(package)
    if not own:
        without.append(package)
    for text in dict.fromkeys(own):
        holders.setdefault(text, []).append(f"{package['name']} {package['version']}")
parts = [
    "Crates that are compiled into twitter-updater, and their licences. Of a choice of licences we take MIT.\n",
    *(f"{package['name']} {package['version']}: {expression(package)}" for package in crates),
    "\nCrates without a text of their licence; the texts of MIT and Apache-2.0 are those of this program:\n",
    *(f"{package['name']} {package['version']}: {expression(package)}" for package in without),
]
for text, names in sorted(holders.items(), key=lambda of: of[1]):
    parts += ["\n" + "=" * 80, ", ".join(names), "=" * 80 + "\n", text]
(folder / "third-party.txt").write_text("\n".join(parts) + "\n")
print(f"{len(crates)} crates, {len(holders)} texts, {len(without)} crates without one")
