// Package encoding implements the encodings of records in HTTP bodies: multipart with a list of
// sizes, JSON, and lines of text. It converts bodies to batches and batches to bodies, in memory
// that was reserved before (budget.Arena). It knows neither HTTP nor the broker. Faults are
// problems of package api that name the member or part.
package encoding
