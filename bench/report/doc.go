// Package report turns results into what people look at: tables in Markdown, pictures as SVG, and
// one HTML file that needs nothing else. It also compares two results: what has changed, and
// whether that is more than noise.
package report
