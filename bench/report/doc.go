// Package report turns results into what people look at: tables in Markdown, pictures as SVG, and one HTML file that needs
// nothing else.
package report
