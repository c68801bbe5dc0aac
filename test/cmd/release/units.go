package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/testenv"
)

// units starts the unit of two machines on one bucket. The second broker takes over, the first one
// stays down, and the epoch does not change. A killed broker starts again, and the other one still
// stays down.
func (c *checks) units() error {
	s3, err := c.s3()
	if err != nil {
		return err
	}
	defer s3.Stop()
	var services [2]*service
	var addresses [2]string
	for i := range services {
		m, err := c.machine()
		if err != nil {
			return err
		}
		if err := m.runAll("dpkg -i " + c.debName()); err != nil {
			return err
		}
		port, err := freePort()
		if err != nil {
			return err
		}
		addresses[i] = "http://127.0.0.1:" + port
		services[i], err = m.start(append(s3Environment(s3, "units"), "SEB_HTTP_PORT="+port, "SEB_KAFKA_LISTEN=127.0.0.1:0")...)
		if err != nil {
			return err
		}
		defer services[i].close()
		if err := services[i].ready(); err != nil {
			return err
		}
	}
	down, up := services[0], services[1]
	// A leader without requests sends none to the store: it learns of the takeover at the next write.
	if err := produce(addresses[0], down.machine.path(keyFile)); err == nil {
		return errors.New("the first broker acknowledged a record after the takeover")
	}
	if err := down.wait("end after the takeover", time.Minute, func(h history) bool { return len(h.codes) > 0 }); err != nil {
		return err
	}
	epoch, err := c.steady(addresses[1], down, up)
	if err != nil {
		return err
	}
	c.note("one of two ran for %s in epoch %d", c.unitsTime, epoch)
	if err := up.history().running.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	if err := up.wait("second start", time.Minute, func(h history) bool { return h.starts == 2 && slices.Contains(h.states, "READY=1") }); err != nil {
		return err
	}
	again, err := c.epoch(addresses[1])
	if err != nil {
		return err
	}
	if again != epoch+1 || down.history().starts != 1 {
		return fmt.Errorf("after a kill: epoch %d, was %d; the other unit: %+v", again, epoch, down.history())
	}
	_, err = up.stop()
	return err
}

// steady checks for unitsTime that the first service is down and the second one leads in the same
// epoch.
func (c *checks) steady(address string, down, up *service) (uint32, error) {
	const fenced = 3 // exit code
	epoch, err := c.epoch(address)
	if err != nil {
		return 0, err
	}
	for end := time.Now().Add(c.unitsTime); time.Now().Before(end); time.Sleep(time.Second) {
		d, u := down.history(), up.history()
		if d.starts != 1 || d.running != nil || !slices.Equal(d.codes, []int{fenced}) {
			return 0, fmt.Errorf("the first unit did not stay down: %+v\n%s", d, down.tail())
		}
		if u.starts != 1 || u.running == nil {
			return 0, fmt.Errorf("the second unit does not run: %+v\n%s", u, up.tail())
		}
		now, err := c.epoch(address)
		if err != nil || now != epoch {
			return 0, errors.Join(err, fmt.Errorf("epoch %d, was %d", now, epoch))
		}
	}
	return epoch, nil
}

// produce produces a record.
func produce(address, keyFile string) error {
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return err
	}
	c, err := client.New(address, client.Options{APIKey: strings.TrimSpace(string(key)), RetryTime: -1})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.ProduceValues(context.Background(), "demo", [][]byte{[]byte("hello")}, client.ProduceOptions{})
	return err
}

// epoch returns that of the leader at an address.
func (c *checks) epoch(address string) (uint32, error) {
	b, err := client.New(address, client.Options{})
	if err != nil {
		return 0, err
	}
	defer b.Close()
	h, err := b.Ready(c.ctx)
	return h.Epoch, err
}

// s3Environment has the settings of a broker on an S3 server.
func s3Environment(s *testenv.S3Server, prefix string) []string {
	return []string{"SEB_BUCKET=" + s.Spec(prefix), "AWS_ACCESS_KEY_ID=" + testenv.AccessKey, "AWS_SECRET_ACCESS_KEY=" + testenv.SecretKey}
}
