package httpconn

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/sebbroker/seb/internal/problem"
)

// Condition is the header If-None-Match of a request (RFC 9110, section 13.1.2).
type Condition struct {
	Any  bool     // "*": matches every representation
	tags []string // opaque tags with their quotes, without W/
}

// entityTag matches an element of a list of entity tags and the comma after it. blank lists the
// characters that may separate elements.
var entityTag = regexp.MustCompile(`^(?:W/)?("[^\x00-\x20"\x7f]*")[ \t]*(?:,|$)`)

const blank = ", \t"

// IfNoneMatch parses the header If-None-Match. It returns nil without the header, and a problem if
// the value is neither "*" nor a list of entity tags: a malformed condition of a write must not
// count as absent.
func IfNoneMatch(r *http.Request) (*Condition, error) {
	given := r.Header.Values("If-None-Match")
	if len(given) == 0 {
		return nil, nil
	}
	text := strings.Join(given, ",")
	if strings.Trim(text, " \t") == "*" {
		return &Condition{Any: true}, nil
	}
	c := &Condition{}
	for rest := strings.TrimLeft(text, blank); rest != ""; rest = strings.TrimLeft(rest, blank) {
		tag := entityTag.FindStringSubmatch(rest)
		if tag == nil {
			return nil, badCondition(text)
		}
		c.tags = append(c.tags, tag[1])
		rest = rest[len(tag[0]):]
	}
	return c, nil
}

func badCondition(text string) error {
	return problem.BadField("If-None-Match", "want * or entity tags in quotes, given %s", problem.Quote(text))
}

// Matches reports whether the client has the representation with this entity tag. The comparison is
// weak. A nil condition never matches.
func (c *Condition) Matches(tag string) bool {
	if c == nil {
		return false
	}
	if c.Any {
		return true
	}
	return slices.Contains(c.tags, strings.TrimPrefix(tag, "W/"))
}
