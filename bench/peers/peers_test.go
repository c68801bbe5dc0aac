package peers_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sebbroker/seb/bench/peers"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// options returns Options with a temporary data folder and the cache of the repository.
func options(t *testing.T) peers.Options {
	t.Helper()
	return peers.Options{Data: t.TempDir(), Progress: t.Output()}
}

func downAtEnd(t *testing.T, o peers.Options) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		check.NoError(t, peers.Down(ctx, o))
	})
}

func exists(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestAPeerOutlivesTheCallAndAnotherFindsAndStopsIt(t *testing.T) {
	o := options(t)
	downAtEnd(t, o)
	up := must.Get(peers.Up(t.Context(), o, "seb-memory"))(t)
	p := up[0]
	if p.Name != "seb-memory" || !exists(p.PID) || p.Start <= 0 || len(p.Targets) != 3 || p.Targets[0].Driver != "seb" || p.Targets[1].Driver != "kafka" || p.Targets[2].Driver != "sqs" {
		t.Errorf("up: %+v", p)
	}
	again, err := peers.Up(t.Context(), o, "seb-memory")
	if err != nil || again[0].PID != p.PID {
		t.Errorf("up once more: %+v, %v", again, err)
	}
	list, err := peers.Running(o)
	if err != nil || len(list) != 1 || list[0].PID != p.PID || list[0].Targets[0].Address != p.Targets[0].Address {
		t.Errorf("running: %+v, %v", list, err)
	}
	must.NoError(t, peers.Down(t.Context(), o, "seb"))
	check.ErrorIsf(t, check.Err(os.Stat(p.Dir)), os.ErrNotExist, "its folder")
	if list, err := peers.Running(o); err != nil || len(list) != 0 || exists(p.PID) {
		t.Errorf("after down: %+v, %v, process: %v", list, err, exists(p.PID))
	}
}

func TestAPeerThatHasDiedIsStartedAnew(t *testing.T) {
	o := options(t)
	downAtEnd(t, o)
	up := must.Get(peers.Up(t.Context(), o, "seb-memory"))(t)
	must.NoError(t, up[0].Kill())
	for ends := time.Now().Add(20 * time.Second); ; {
		list := must.Get(peers.Running(o))(t)
		if len(list) == 0 {
			break
		}
		if time.Now().After(ends) {
			t.Fatal("it is still alive")
		}
	}
	again := must.Get(peers.Up(t.Context(), o, "seb-memory"))(t)
	if again[0].PID == up[0].PID || !exists(again[0].PID) {
		t.Errorf("process %d, before %d", again[0].PID, up[0].PID)
	}
}

// TestAnotherProcessOfTheNumberIsLeftAlone changes the start time of the process in the state file
// to simulate a reused PID.
func TestAnotherProcessOfTheNumberIsLeftAlone(t *testing.T) {
	o := options(t)
	up := must.Get(peers.Up(t.Context(), o, "seb-memory"))(t)
	file := filepath.Join(o.Data, "peers.json")
	text := must.Get(os.ReadFile(file))(t)
	other := regexp.MustCompile(`"born": \d+`).ReplaceAllString(string(text), `"born": 1`)
	if other == string(text) {
		t.Fatalf("no birth in %s", text)
	}
	must.NoError(t, os.WriteFile(file, []byte(other), 0o600))
	must.NoError(t, syscall.Kill(up[0].PID, syscall.SIGSTOP)) // it would write into the folder that Down removes
	check.NoError(t, peers.Down(t.Context(), o))
	must.NoError(t, syscall.Kill(up[0].PID, syscall.SIGCONT))
	if !exists(up[0].PID) {
		t.Error("it was ended")
	}
	if err := up[0].Stop(t.Context()); err != nil || exists(up[0].PID) {
		t.Errorf("stop: %v", err)
	}
}

func TestUnknownNamesAreRefusedWithThoseThereAre(t *testing.T) {
	_, err := peers.Up(t.Context(), options(t), "seb-memory", "sebb")
	if !errors.Is(err, peers.ErrUnknown) || !strings.Contains(err.Error(), `"sebb"`) || !strings.Contains(err.Error(), "redis-fsync") {
		t.Error(err)
	}
	check.ErrorIs(t, peers.Down(t.Context(), options(t), "unknown"), peers.ErrUnknown)
}

func TestKindsAreListed(t *testing.T) {
	list := peers.Kinds()
	for _, name := range []string{
		"redis-memory", "redis-fsync", "nats-memory", "nats-fsync", "rabbitmq-memory", "rabbitmq-fsync", "kafka-memory", "kafka-fsync",
		"seb-memory", "seb-fsync", "seb-s3", "postgres-fsync", "elasticmq-file",
	} {
		if !slices.ContainsFunc(list, func(k peers.Kind) bool { return k.Name == name && k.Doc != "" }) {
			t.Errorf("%s is missing, or what it is", name)
		}
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	o := options(t)
	o.Cache = t.TempDir()
	for name, want := range map[string]string{
		"redis-memory": "redis-server is not installed", "kafka-memory": "needs the program",
		"nats-fsync": "nats-server needs the program go", "seb-memory": "Seb needs the program go",
	} {
		_, err := peers.Up(t.Context(), o, name)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	left, err := os.ReadDir(o.Cache)
	if err != nil || len(left) != 0 {
		t.Errorf("left in the cache: %v, %v", left, err)
	}
}
