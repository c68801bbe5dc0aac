package httpapi

import (
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/problem"
)

// crossOrigin refuses what a browser sends for a page of another origin. It knows more about
// browsers than admitOrigin, which also serves the pages of Options.Origins.
var crossOrigin = http.NewCrossOriginProtection()

// sessionCookie is the name of the cookie of sessions. Browsers send cookies to every port of a
// host, so the name has the port.
func sessionCookie(r *http.Request) string { return cookieFor(r.Host) }

func cookieFor(host string) string {
	if _, port, err := net.SplitHostPort(host); err == nil {
		return "seb_console_" + port
	}
	return "seb_console"
}

// bySession authenticates a request of the console. expires is when its session ends.
func (a *API) bySession(r *http.Request, page string) (who *auth.Identity, expires time.Time, err error) {
	if a.o.Console == nil {
		return nil, expires, auth.ErrUnauthenticated
	}
	site := r.Header.Get("Sec-Fetch-Site")
	if crossOrigin.Check(r) != nil || site == "cross-site" || site == "same-site" { // the check admits every GET
		return nil, expires, problem.New(api.Forbidden, "a page of another origin may not use a session")
	}
	cookie := ""
	if c, err := r.Cookie(sessionCookie(r)); err == nil {
		cookie = c.Value
	}
	return a.o.Auth.Session(r.Context(), cookie, page, r.RemoteAddr)
}

// postLogin answers a key with a session.
func (a *API) postLogin(w http.ResponseWriter, r *http.Request, by *caller) error {
	if a.o.Console == nil {
		return errNoConsole()
	}
	s, err := a.o.Auth.NewSession(by.Identity)
	if err != nil {
		return problem.New(api.BadRequest, "%v", err)
	}
	a.setCookie(w, r, s.Cookie, int(auth.SessionLife/time.Second))
	answer := a.sessionOf(by)
	answer.Session, answer.Expires = s.Page, s.Expires.UTC()
	return a.writeSession(w, answer)
}

// getSession describes the client of a session.
func (a *API) getSession(w http.ResponseWriter, r *http.Request, by *caller) error {
	if a.o.Console == nil {
		return errNoConsole()
	}
	answer := a.sessionOf(by)
	if end, ok := r.Context().Deadline(); ok {
		answer.Expires = end.UTC()
	}
	return a.writeSession(w, answer)
}

// postLogout makes the browser forget its cookie.
func (a *API) postLogout(w http.ResponseWriter, r *http.Request, _ *caller) error {
	if a.o.Console == nil {
		return errNoConsole()
	}
	a.setCookie(w, r, "", -1)
	return a.noContent(w)
}

func errNoConsole() error {
	return problem.New(api.NotFound, "this broker has no console (--console=false)")
}

func (a *API) setCookie(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{
		Name: sessionCookie(r), Value: value, Path: "/", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	})
}

func (a *API) writeSession(w http.ResponseWriter, s *api.Session) error {
	w.Header().Set("Cache-Control", "no-store")
	return a.writeJSON(w, http.StatusOK, s)
}

// sessionOf lists what a client may do on some resource, for a page that hides the rest.
func (a *API) sessionOf(by *caller) *api.Session {
	s := &api.Session{Principal: by.Name(), EventsTopic: a.o.EventsTopic, ReadOnly: a.b.ReadOnly(), May: map[string][]string{}}
	if t := a.b.AuditTopic(); t != "" && by.Allow(access.Read, access.Topic, t) {
		s.AuditTopic = t
	}
	for _, t := range []access.ResourceType{access.Topic, access.Group, access.TransactionalID, access.Cluster, access.Trigger, access.Metrics} {
		for _, o := range access.OperationsOf(t) {
			if by.AllowSome(o, t) {
				s.May[t.String()] = append(s.May[t.String()], o.String())
			}
		}
	}
	return s
}

// isPage reports whether a request without a route is for the console.
func (a *API) isPage(r *http.Request) bool {
	if a.o.Console == nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	path := r.URL.Path
	return path == "/" && acceptsPage(r) || path == "/console" || strings.HasPrefix(path, "/console/")
}

// acceptsPage reports whether a client is a browser that shows what it gets.
func acceptsPage(r *http.Request) bool {
	return strings.Contains(strings.Join(r.Header["Accept"], ","), "text/html")
}

// servePage serves a page or file of the console.
func (a *API) servePage(w http.ResponseWriter, r *http.Request) error {
	if !KnownHost(r.Host, a.o.Hosts) {
		return unknownHost(r)
	}
	if !strings.HasPrefix(r.URL.Path, "/console/") {
		w.Header().Set("Location", "console/") // a proxy may add a folder
		w.WriteHeader(http.StatusSeeOther)
		return nil
	}
	return encoded(func(a *API, w http.ResponseWriter, r *http.Request, _ *caller) error {
		a.pace.ExtendWrite(w)
		if a.o.Console(w, r) {
			return nil
		}
		return problem.New(api.NotFound, "the console has no file %s", problem.Quote(r.URL.Path))
	})(a, w, r, nil)
}

func unknownHost(r *http.Request) error {
	return problem.New(api.Forbidden, "host %s is not known here; --http-host names hosts that are", problem.Quote(r.Host))
}
