// Package report renders results as Markdown tables, SVG charts and one self-contained HTML file.
// It also compares two results and tests whether the differences are significant.
package report
