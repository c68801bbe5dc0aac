package httpapi

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// listed is the answer of a list: the name of each element, and the next page.
type listed struct {
	names []string
	next  string
}

// list reads a list. name is the member that names an element; without it the whole element does.
func (s *server) list(path, name string) (l listed) {
	s.t.Helper()
	var body map[string]json.RawMessage
	s.must(200, s.get(path), &body)
	for member, raw := range body {
		if member == "next" {
			must.NoError(s.t, json.Unmarshal(raw, &l.next))
			continue
		}
		var all []map[string]any
		must.NoError(s.t, json.Unmarshal(raw, &all))
		for _, e := range all {
			if name == "" {
				l.names = append(l.names, fmt.Sprint(e["principal"], " ", e["operation"], " ", e["pattern"]))
			} else {
				l.names = append(l.names, e[name].(string))
			}
		}
	}
	return l
}

// fill makes five elements of each list.
func (s *server) fill() {
	s.t.Helper()
	for i, c := range "abcde" {
		name := fmt.Sprintf("x%c.y", c)
		newTopic(s, name, 1)
		for range 5 * (i%3 + 1) {
			s.mustPost("topic-name="+name, api.TextPlain, "v")
		}
		s.must(200, s.send("PUT", "/offsets?group="+name, `{"offsets":[{"topic":"`+name+`","partition":0,"offset":0},{"topic":"xa.y","partition":0,"offset":5}]}`), nil)
		s.must(201, s.send("POST", "/tokens", `{"id":"`+name+`","rules":[{"resource":"topic","pattern":"`+name+`","operation":"read"},{"resource":"group","pattern":"*","operation":"read"}]}`), nil)
		s.transactor(name)
		s.must(200, s.send("PUT", "/quotas/"+name, `{"requests":100}`), nil)
	}
}

// TestListsInPages: each list answers in pages if there is a limit, which together are the whole list,
// and finds names that contain a text. Without a limit it is whole, and has no next.
func TestListsInPages(t *testing.T) {
	s := start(t)
	s.fill()
	for path, c := range map[string]struct {
		name string
		all  int
	}{
		"/topics?": {"name", 5}, "/groups?": {"group", 5}, "/groups?members=true&": {"group", 5}, "/groups?order=lag&": {"group", 5},
		"/groups?topic-name=xa.y&": {"group", 5}, "/groups?order=lag&topic-name=xa.y&": {"group", 5},
		"/tokens?": {"id", 5}, "/acls?": {"", 10}, "/acls?resource=topic&": {"", 5}, "/quotas?": {"principal", 5}, "/transactions?": {"transactional_id", 5},
	} {
		t.Run(path, func(t *testing.T) {
			whole := s.list(path, c.name)
			if len(whole.names) != c.all || whole.next != "" {
				t.Fatalf("the whole list: %+v", whole)
			}
			for _, limit := range []int{1, 2, c.all - 1, c.all, c.all + 1, 1000} {
				var got []string
				for after, n := "", 0; ; n++ {
					p := s.list(fmt.Sprintf("%slimit=%d&after=%s", path, limit, url.QueryEscape(after)), c.name)
					if got = append(got, p.names...); len(p.names) > limit || n > c.all || p.next != "" && len(p.names) < limit {
						t.Fatalf("page %d of %d: %+v", n, limit, p)
					}
					if after = p.next; after == "" {
						break
					}
				}
				check.EqualSlicesf(t, got, whole.names, "pages of %d", limit)
			}
			found := s.list(path+"contains=C.&limit=9", c.name)
			for _, name := range found.names {
				if !strings.Contains(name, "xc.y") {
					t.Errorf("found %q", name)
				}
			}
			check.Equalf(t, len(found.names), c.all/5, "found %q", found.names)
			check.Equalf(t, len(s.list(path+"contains=nothing", c.name).names), 0, "a text in no name")
			s.must(400, s.get(path+"limit=1001"), nil)
		})
	}
}

// TestGroupsByLag: the groups with the most lag come first, of all offsets or of those in one topic.
func TestGroupsByLag(t *testing.T) {
	s := start(t)
	s.fill()
	want := []string{"xc.y", "xb.y", "xe.y", "xd.y", "xa.y"} // 15, 10, 10, 5, 0 records
	check.EqualSlicesf(t, s.list("/groups?order=lag", "group").names, want, "all groups")
	check.EqualSlicesf(t, s.list("/groups?topic-name=xd.y", "group").names, []string{"xd.y"}, "those of a topic")
	if got := s.list("/groups?order=lag&topic-name=xa.y", "group").names; !slices.IsSorted(got) {
		t.Errorf("groups without lag: %q", got)
	}
	for _, query := range []string{"order=name", "order=lag&after=x", "topic-name=", "order=lag&limit=-1"} {
		s.must(400, s.get("/groups?"+query), nil)
	}
	s.must(400, s.get("/acls?after=x"), nil)
}
