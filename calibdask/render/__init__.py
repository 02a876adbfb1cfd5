"""Renderers: documents as text, HTML, Markdown and JUnit. They know elements of documents, and no analysis."""
