package httpapi

import (
	"fmt"
	"net/http"

	"github.com/sebbroker/seb/internal/httpapi/httpconn"
)

// codings are those in which an answer with an entity tag may have been sent.
var codings = []string{"gzip", "zstd"}

// entityTag identifies the bytes of an answer, or is "" if records may be added to it. An answer
// that ended before the end of its partition consists of the records of its topic from begun up to
// Offset that exist. They never change: a recreated topic has another ID, and an offset is assigned
// once. Compaction can only remove records; then their number is lower, or the answer ends at a
// higher offset.
func (g *Reading) entityTag(form string) string {
	if g.topicID.IsZero() || g.Count == 0 || g.short || g.Offset >= g.End {
		return ""
	}
	return fmt.Sprintf(`"%s1-%s-%d-%x-%x-%x"`, form, g.topicID, g.Partition, g.begun, g.Offset, g.Count)
}

// unchanged sets the entity tag of the collected answer, and answers 304 if the client has it. A
// cache must ask each time, because a trim, compaction and the deletion of the topic remove
// records. No answer is immutable.
func (g *Reading) unchanged(w http.ResponseWriter, form string) bool {
	tag := g.entityTag(form)
	if tag == "" {
		return false
	}
	h := w.Header()
	h.Set("ETag", tag)
	for _, c := range codings {
		if coded := httpconn.EncodedTag(tag, c); g.Condition.Matches(coded) {
			tag = coded // the one that the client has
		}
	}
	if !g.Condition.Matches(tag) {
		return false
	}
	h.Set("ETag", tag)
	g.headOfRecords(w, "", -1)
	h.Del("Content-Type")
	w.WriteHeader(http.StatusNotModified)
	return true
}
