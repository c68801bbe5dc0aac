package httpconn

import (
	"mime"
	"strconv"
	"strings"

	"github.com/sebbroker/seb/api"
)

// mediaRange is one element of an Accept header.
type mediaRange struct {
	kind string // type/subtype in lower case, perhaps with *
	q    float64
}

// parseAccept reads the values of Accept headers. It skips elements that are not media ranges.
func parseAccept(headers []string) []mediaRange {
	var ranges []mediaRange
	for _, h := range headers {
		for element := range strings.SplitSeq(h, ",") {
			kind, params, err := mime.ParseMediaType(element)
			if err != nil || kind == "" {
				continue
			}
			q := 1.0
			if text, ok := params["q"]; ok {
				if q, err = strconv.ParseFloat(text, 64); err != nil || !(q >= 0 && q <= 1) {
					continue
				}
			}
			ranges = append(ranges, mediaRange{kind: kind, q: q})
		}
	}
	return ranges
}

// quality returns the weight of kind. The most specific range decides (RFC 9110 section 12.5.1).
func quality(ranges []mediaRange, kind string) float64 {
	best, q := -1, 0.0
	major, _, _ := strings.Cut(kind, "/")
	for _, r := range ranges {
		specific := -1
		switch r.kind {
		case kind:
			specific = 2
		case major + "/*":
			specific = 1
		case "*/*":
			specific = 0
		}
		if specific > best {
			best, q = specific, r.q
		}
	}
	return q
}

// Negotiate returns the offer that the Accept headers prefer, or "" if they exclude all. Without
// headers, or with only application/problem+json, it returns the first offer.
func Negotiate(headers []string, offers []string) string {
	if strings.Trim(strings.Join(headers, ""), ", \t") == "" {
		return offers[0]
	}
	ranges := parseAccept(headers)
	only := len(ranges) > 0
	for _, r := range ranges {
		only = only && r.kind == api.ProblemJSON
	}
	if only {
		return offers[0]
	}
	chosen, best := "", 0.0
	for _, offer := range offers {
		if q := quality(ranges, offer); q > best {
			chosen, best = offer, q
		}
	}
	return chosen
}
