package httpapi

import (
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// sampled logs at most one line per interval about similar failures and counts the others, because
// one cause often ends hundreds of requests. The zero value is ready.
type sampled struct {
	mu     sync.Mutex // guards the fields below
	next   time.Time
	others int // since the last line
}

// sampledEvery is the shortest time between two lines of a kind.
const sampledEvery = 20 * time.Second

func (s *sampled) log(to *slog.Logger, level slog.Level, message string, r *http.Request, err error) {
	s.mu.Lock()
	now := time.Now()
	if now.Before(s.next) {
		s.others++
		s.mu.Unlock()
		return
	}
	others := s.others
	s.next, s.others = now.Add(sampledEvery), 0
	s.mu.Unlock()
	to.Log(r.Context(), level, message,
		"method", r.Method, "path", r.URL.Path, "code", string(problemOf(err).Code), "err", err, "others_before", others)
}
