package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/testenv"
)

// rules checks the alert rules and runs their unit tests.
func (c *checks) rules() error {
	prometheus, err := testenv.Debian(c.ctx, "prometheus")
	if err != nil {
		return err
	}
	promtool, dir := filepath.Join(prometheus, "usr/bin/promtool"), filepath.Join(c.root, "packaging", "prometheus")
	if _, err := c.output(dir, promtool, "check", "rules", "--lint=all", "--lint-fatal", "seb.rules.yml"); err != nil {
		return err
	}
	_, err = c.output(dir, promtool, "test", "rules", "seb.rules.test.yml")
	return err
}

const (
	alertsKey  = "key-of-the-alerts-check"
	alertsWait = time.Minute
	writeEvery = 300 * time.Millisecond
)

// monitored is a broker of the deb on an S3 server, with a Prometheus that has the rules of the deb.
type monitored struct {
	c       *checks
	dir     string // with the unpacked deb
	s3      *testenv.S3Server
	broker  *testenv.Broker
	address string // of the broker
	api     string // of Prometheus
}

// alerts checks the alerts of a Prometheus that scrapes a broker: SebStoreErrors fires after the S3
// server stops, and SebDown after the broker is killed. It also runs the dashboard's queries. The
// alerts fire after two seconds instead of minutes.
func (c *checks) alerts() (err error) {
	work := c.work
	m := monitored{c: c, dir: filepath.Join(work, "alerts")}
	if _, err := c.output(work, "dpkg-deb", "-x", filepath.Join(c.dist, "seb_"+version+"_amd64.deb"), m.dir); err != nil {
		return err
	}
	if m.s3, err = testenv.StartS3(c.ctx, filepath.Join(work, "s3")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.s3.Stop()) }()
	if err := m.startBroker(); err != nil {
		return err
	}
	defer m.broker.Kill()
	prometheus, err := m.startPrometheus()
	if err != nil {
		return err
	}
	defer prometheus.Kill()
	stop := m.write()
	defer stop()

	if err := m.await("scrape of the broker", func() error { return m.query(`rate(seb_log_records_total[1m]) > 0`) }); err != nil {
		return err
	}
	if err := m.queries(); err != nil {
		return err
	}
	if err := m.fires(""); err != nil {
		return err
	}
	if err := m.s3.Stop(); err != nil {
		return err
	}
	if err := m.await("alert after the S3 server stopped", func() error { return m.fires("SebStoreErrors") }); err != nil {
		return err
	}
	m.broker.Kill()
	return m.await("alert after the broker was killed", func() error { return m.fires("SebDown") })
}

func (m *monitored) startBroker() (err error) {
	env := []string{"SEB_API_KEY=" + alertsKey, "AWS_ACCESS_KEY_ID=" + testenv.AccessKey, "AWS_SECRET_ACCESS_KEY=" + testenv.SecretKey}
	data := filepath.Join(m.dir, "data")
	m.broker, err = testenv.Serve(filepath.Join(m.dir, "usr/bin/seb"), env, "--bucket", m.s3.Spec("alerts"), "--data-dir", data,
		"--http-port", "0", "--kafka-listen", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if m.address, err = m.broker.Address(data); err != nil {
		m.broker.Kill()
	}
	return err
}

// startPrometheus starts Prometheus with the rules of the deb; each alert is pending for 2 s.
func (m *monitored) startPrometheus() (*testenv.Broker, error) {
	unpacked, err := testenv.Debian(m.c.ctx, "prometheus")
	if err != nil {
		return nil, err
	}
	rules, err := os.ReadFile(filepath.Join(m.dir, "usr/share/seb/prometheus/seb.rules.yml"))
	if err != nil {
		return nil, err
	}
	rules = regexp.MustCompile(`for: \d+[mh]`).ReplaceAll(rules, []byte("for: 2s"))
	config := fmt.Sprintf(`global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [rules.yml]
scrape_configs:
  - job_name: seb
    authorization: {credentials: %s}
    static_configs: [{targets: ["%s"]}]
`, alertsKey, strings.TrimPrefix(m.address, "http://"))
	file := filepath.Join(m.dir, "prometheus.yml")
	if err := errors.Join(os.WriteFile(filepath.Join(m.dir, "rules.yml"), rules, 0o600), os.WriteFile(file, []byte(config), 0o600)); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	m.api = "http://" + address + "/api/v1/"
	return testenv.StartProgram(filepath.Join(unpacked, "usr/bin/prometheus"), nil, nil,
		"--config.file="+file, "--storage.tsdb.path="+filepath.Join(m.dir, "tsdb"), "--web.listen-address="+address)
}

// write sends a record every writeEvery until stop is called. Errors are expected while the store
// is away.
func (m *monitored) write() (stop func()) {
	ctx, cancel := context.WithCancel(m.c.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ; ctx.Err() == nil; time.Sleep(writeEvery) {
			c, err := client.New(m.address, client.Options{APIKey: alertsKey})
			if err != nil {
				panic(err) // the address of a broker is valid
			}
			once, end := context.WithTimeout(ctx, time.Second)
			_, _ = c.ProduceValues(once, "t", [][]byte{[]byte("value")}, client.ProduceOptions{})
			end()
			c.Close()
		}
	}()
	return func() { cancel(); <-done }
}

// fires compares the firing alerts with the wanted one, or with none if want is "".
func (m *monitored) fires(want string) error {
	var got struct {
		Alerts []struct {
			State               string
			Labels, Annotations map[string]string
		}
	}
	if err := m.get("alerts", &got); err != nil {
		return err
	}
	var names []string
	for _, a := range got.Alerts {
		if a.State != "firing" {
			continue
		}
		if text := a.Annotations["summary"] + " " + a.Annotations["description"]; strings.Contains(text, "<error") || strings.Contains(text, "  ") {
			return fmt.Errorf("%s says %q", a.Labels["alertname"], text)
		}
		names = append(names, a.Labels["alertname"])
		if a.Labels["alertname"] == want {
			return nil
		}
	}
	if want == "" && len(names) == 0 {
		return nil
	}
	return fmt.Errorf("firing alerts %q, want %q", names, want)
}

// queries runs the queries of the dashboard.
func (m *monitored) queries() error {
	text, err := os.ReadFile(filepath.Join(m.dir, "usr/share/seb/grafana/seb.json"))
	if err != nil {
		return err
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		return err
	}
	variables := strings.NewReplacer("$job", ".+", "$instance", ".+", "$__rate_interval", "1m")
	for _, p := range dashboard.Panels {
		for _, t := range p.Targets {
			err := m.query(variables.Replace(t.Expr))
			if err != nil && (!errors.Is(err, errNoSeries) || !strings.Contains(t.Expr, "seb_group_lag_records")) { // there is no group
				return fmt.Errorf("panel %s: %w", p.Title, err)
			}
		}
	}
	return nil
}

var errNoSeries = errors.New("no series")

// query returns errNoSeries if the result is empty.
func (m *monitored) query(expr string) error {
	var got struct{ Result []json.RawMessage }
	if err := m.get("query?query="+url.QueryEscape(expr), &got); err != nil {
		return err
	}
	if len(got.Result) == 0 {
		return fmt.Errorf("%s: %w", expr, errNoSeries)
	}
	return nil
}

// get decodes the data of an answer of Prometheus.
func (m *monitored) get(path string, data any) error {
	req, err := http.NewRequestWithContext(m.c.ctx, http.MethodGet, m.api+path, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer := struct {
		Error string
		Data  any
	}{Data: data}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Error != "" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return nil
}

// await repeats try every 200 ms until it succeeds, for alertsWait at most.
func (m *monitored) await(what string, try func() error) error {
	begin := time.Now()
	for {
		err := try()
		if err == nil {
			m.c.note("%s after %v", what, time.Since(begin).Round(100*time.Millisecond))
			return nil
		}
		if time.Since(begin) > alertsWait || m.c.ctx.Err() != nil {
			return fmt.Errorf("%s: %w\n%s", what, err, m.broker.Log())
		}
		time.Sleep(200 * time.Millisecond)
	}
}
