package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/testenv"
)

// token is the API key of all brokers. No client may show it.
const token = "conformance-key-0123456789"

// readyTime bounds the wait for a broker that must lead, or for what a broker must have done.
const readyTime = time.Minute

// site is a bucket with one broker or two, at fixed addresses.
type site struct {
	program, dir string
	nodes        []*node
	leader       int // index of the node that leads
	http         http.Client
}

// node is a broker of a site, as consecutive processes.
type node struct {
	address, data string
	process       *testenv.Broker
}

// newSite starts brokers.
func newSite(program, dir string, brokers int) (*site, error) {
	s := &site{program: program, dir: dir, http: http.Client{Transport: &http.Transport{}}}
	for i := range brokers {
		address, err := testenv.FreeAddress()
		if err != nil {
			return nil, err
		}
		s.nodes = append(s.nodes, &node{address: address, data: filepath.Join(dir, fmt.Sprint("data", i))})
	}
	for i := range brokers {
		if err := s.start(i); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// start starts a broker, also again, and waits until it is ready.
func (s *site) start(i int) error {
	n := s.nodes[i]
	_, port, err := net.SplitHostPort(n.address)
	if err != nil {
		return err
	}
	p, err := testenv.Serve(s.program, []string{"SEB_API_KEY=" + token}, "--bucket", filepath.Join(s.dir, "bucket"), "--data-dir", n.data,
		"--http-port", port, "--kafka-listen", "", "--memory-limit", "96MiB", "--console=false")
	if err != nil {
		return err
	}
	n.process = p
	if _, err := p.Address(n.data); err != nil {
		return fmt.Errorf("%w\n%s", err, p.Log())
	}
	if err := s.leads(len(s.nodes) == 1 || i == s.leader, i); err != nil || i == s.leader {
		return err
	}
	return await("the brokers see each other", s.linked) // else a takeover waits for a minute
}

// linked returns an error unless all brokers are up for the leader.
func (s *site) linked() error {
	var c api.Cluster
	if err := s.once(http.MethodGet, "/cluster", "", "", &c); err != nil {
		return err
	}
	up := 0
	for i := range c.Members {
		if c.Members[i].State == api.MemberUp && c.Members[i].Epoch > 0 {
			up++
		}
	}
	if up < len(s.nodes) {
		return fmt.Errorf("%d of %d brokers are up", up, len(s.nodes))
	}
	return nil
}

// leads waits until a broker answers, or leads.
func (s *site) leads(must bool, i int) error {
	path := "/readyz"
	if must {
		path += "?role=leader"
	}
	err := await(fmt.Sprintf("broker %d answers 200 to %s", i, path), func() error {
		resp, err := s.http.Get("http://" + s.nodes[i].address + path)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		return nil
	})
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, s.nodes[i].process.Log())
	}
	return err
}

// restart starts the leader again after a kill.
func (s *site) restart() error { return s.start(s.leader) }

// kill ends the leader by SIGKILL.
func (s *site) kill() { s.nodes[s.leader].process.Kill() }

// takeOver waits until the other broker leads, and starts the one that was killed.
func (s *site) takeOver() error {
	killed := s.leader
	s.leader = 1 - killed
	if err := s.leads(true, s.leader); err != nil {
		return err
	}
	return s.start(killed)
}

func (s *site) close() {
	for _, n := range s.nodes {
		if n.process != nil {
			n.process.Kill()
		}
	}
	s.http.CloseIdleConnections()
}

// do sends a request to the leader, and decodes its answer. It repeats what is refused for the moment.
func (s *site) do(method, path, kind, body string, out any) error {
	return await(method+" "+path, func() error { return s.once(method, path, kind, body, out) })
}

// once is do without repetitions.
func (s *site) once(method, path, kind, body string, out any) error {
	req, err := http.NewRequestWithContext(context.Background(), method, "http://"+s.nodes[s.leader].address+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Accept", "application/json")
	resp, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return &refusal{resp.StatusCode, string(bytes.TrimSpace(text))}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

// refusal is an answer without a 2xx status.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return fmt.Sprintf("answer %d %s", r.status, r.text) }

// get reads from the leader.
func (s *site) get(path string, out any) error { return s.do(http.MethodGet, path, "", "", out) }

// send sends JSON to the leader.
func (s *site) send(method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return s.do(method, path, "application/json", string(body), out)
}

// await repeats f until it succeeds, or is refused for a reason that stays.
func await(what string, f func() error) error {
	for end := time.Now().Add(readyTime); ; {
		err := f()
		if err == nil {
			return nil
		}
		r, refused := err.(*refusal)
		if refused && r.status < 500 && r.status != http.StatusTooManyRequests || time.Now().After(end) {
			return fmt.Errorf("%s: %w", what, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// gone reports whether an answer says that something does not exist.
func gone(err error) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && r.status == http.StatusNotFound
}
