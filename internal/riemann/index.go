package riemann

import "context"

// Index answers queries for the newest event of each host and service. Its methods may be called
// concurrently.
type Index interface {
	// Query returns the events for which an expression of Riemann's query language is true, each
	// encoded as the field events (6) of a Msg, at most limit bytes. It sees every event that was
	// committed to the topic before the call. The error is a sentence for the client, such as
	// "parse error: ..." or one that the answer has more than limit bytes.
	Query(ctx context.Context, text string, limit int) ([]byte, error)
}

// QueryMax bounds the text of a query.
const QueryMax = 4 << 10
