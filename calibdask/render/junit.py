"""Documents as JUnit XML: a test case for each of their decisions, for build servers."""

from xml.etree import ElementTree

from calibdask.results.document import CheckedLimit, Checks, Document, Listing
from calibdask.safe_text import visible


def junit(document: Document) -> str:
    """One test case for each decision; one that is broken, or undecided, is a failure of that type."""
    checks = [check for element in document.elements() if isinstance(element, Checks) for check in element.items]
    failures = sum(check.outcome != "met" for check in checks)
    counts = {"tests": str(len(checks)), "failures": str(failures), "errors": "0", "skipped": "0"}
    title = visible(document.title)
    suite = ElementTree.Element("testsuite", {"name": title, **counts})
    for check in checks:
        _add_case(suite, title, check)
    notes = [note for element in document.elements() if isinstance(element, Listing) for note in element.items]
    if notes:
        ElementTree.SubElement(suite, "system-out").text = "\n".join(map(visible, notes))
    suites = ElementTree.Element("testsuites", counts)
    suites.append(suite)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _add_case(suite: ElementTree.Element, title: str, check: CheckedLimit) -> None:
    case = ElementTree.SubElement(suite, "testcase", {"classname": title, "name": visible(check.name)})
    if check.outcome != "met":
        attributes = {"type": check.outcome, "message": visible(check.message)}
        failure = ElementTree.SubElement(case, "failure", attributes)
        failure.text = visible(check.meaning)
