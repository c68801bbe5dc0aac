package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	billing = "billing" // the group that moves
	audit   = "audit"   // a group that is behind, and does not read

	// syncTime is after how long the offset of a group that stopped is at the other cluster: twice the
	// intervals of checkpoints and of offsets in the guide.
	syncTime = 20 * time.Second
	copyTime = 15 * time.Minute // limit of each wait for a copy

	retentionMillis = "777600000" // of orders
)

// move is a move from Seb to Kafka and back.
type move struct {
	options
	dir     string // of everything
	tools   string // class path of Kafka
	connect string // class path of MirrorMaker
	guide   *guide

	seb, kafka *cluster
	running    []*process
	w          *writer
	billing    *group
	step       string // for progress
	lines      []string
	faults     []string
}

// leg is a copy from one cluster to another, and the move of group and producers.
type leg struct {
	from, to *cluster
	file     string // of properties
	check    string // command of the guide
	changes  map[string]string
}

func (m *move) environment() []string {
	return append(os.Environ(), "PATH="+filepath.Join(m.dir, "bin")+string(filepath.ListSeparator)+os.Getenv("PATH"))
}

// program returns the path of a built program.
func (m *move) program(name string) string { return filepath.Join(m.dir, "bin", name) }

// found adds a line to the result.
func (m *move) found(format string, args ...any) {
	m.lines = append(m.lines, fmt.Sprintf(format, args...))
	m.progress("%s", m.lines[len(m.lines)-1])
}

// fault adds a line that makes the run fail.
func (m *move) fault(format string, args ...any) {
	m.faults = append(m.faults, fmt.Sprintf(format, args...))
	m.found("FAULT: "+format, args...)
}

// run moves to Kafka, and back unless that is not wanted.
func (m *move) run(ctx context.Context) (err error) {
	defer func() {
		for _, p := range m.running {
			p.run.Kill()
		}
	}()
	if m.seb, err = m.startSeb(ctx, "seb"); err != nil {
		return err
	}
	if m.kafka, err = m.startKafka(ctx); err != nil {
		return err
	}
	m.billing = &group{name: billing}
	m.w = newWriter(max(100, m.records/20))
	if err := m.history(ctx); err != nil {
		return err
	}
	if err := m.leg(ctx, &leg{m.seb, m.kafka, "seb-to-kafka.properties", commandCheckOut, m.changes()}); err != nil || !m.back {
		return err
	}
	old := m.seb
	if m.seb, err = m.startSeb(ctx, "seb-again"); err != nil {
		return err
	}
	if err := m.more(ctx, m.kafka, m.records*2/5); err != nil {
		return err
	}
	old.process.run.Kill()
	if err := m.leg(ctx, &leg{m.kafka, m.seb, "kafka-to-seb.properties", commandCheckBack, nil}); err != nil {
		return err
	}
	return m.more(ctx, m.seb, m.records/20)
}

// history creates the topics at Seb, and writes the records that are there before the copy begins.
func (m *move) history(ctx context.Context) error {
	err := m.seb.admin(func(a *kadm.Client) error {
		compact, retention := "compact", retentionMillis
		_, first := a.CreateTopic(ctx, ordersPartitions, 1, map[string]*string{"retention.ms": &retention}, orders)
		_, second := a.CreateTopic(ctx, stockPartitions, 1, map[string]*string{"cleanup.policy": &compact}, stock)
		return errors.Join(first, second)
	})
	if err != nil {
		return err
	}
	n := m.records * 3 / 5
	if err := m.write(ctx, m.seb, n, 0); err != nil {
		return err
	}
	return m.seb.admin(func(a *kadm.Client) error {
		var o kadm.Offsets
		for p, next := range m.w.next[orders] {
			o.AddOffset(orders, int32(p), next/2, -1)
		}
		return a.CommitAllOffsets(ctx, audit, o)
	})
}

// write writes records with a new client.
func (m *move) write(ctx context.Context, c *cluster, n, rate int64) error {
	if err := m.w.connect(c); err != nil {
		return err
	}
	return m.w.write(ctx, n, rate, func() { m.progress("%s: %d records written to %s", m.step, m.w.acked.Load(), c.name) })
}

// more writes records to a cluster while the group reads there.
func (m *move) more(ctx context.Context, c *cluster, n int64) error {
	m.step = "after the switch"
	stop, err := m.billing.start(c)
	if err != nil {
		return err
	}
	err = m.write(ctx, c, n, 0)
	if err == nil {
		err = m.readAll(ctx)
	}
	s, stopped := stop()
	if err := errors.Join(err, stopped); err != nil {
		return err
	}
	m.found("%s, after the switch: %d records written; group %s: %v", c.name, n, billing, s)
	return nil
}

// readAll waits until the group has read all that was written.
func (m *move) readAll(ctx context.Context) error {
	want := int64(0)
	for _, n := range m.w.next[orders] {
		want += n
	}
	return await(ctx, copyTime, "the group reads all", func() (bool, error) {
		m.progress("%s: group %s has read %d of %d", m.step, billing, m.billing.has(), want)
		return m.billing.has() >= want, nil
	})
}

// leg copies with kills while a producer runs, moves the group, stops the producer, and compares.
func (m *move) leg(ctx context.Context, l *leg) error {
	m.step = l.from.name + " to " + l.to.name
	properties, err := m.here(set(m.guide.files[l.file], l.changes))
	if err != nil {
		return err
	}
	base, err := l.from.written(ctx, orders, stock)
	if err != nil {
		return err
	}
	begin := time.Now()
	mirror, err := m.startMirror(strings.TrimSuffix(l.file, ".properties"), properties)
	if err != nil {
		return err
	}
	writing, stopWriting := context.WithCancel(ctx)
	defer stopWriting()
	written := make(chan error, 1)
	before := m.w.total
	go func() { written <- m.write(writing, l.from, 1<<62, m.rate) }()
	stop, err := m.billing.start(l.from)
	if err != nil {
		return err
	}
	if err := m.killDuring(ctx, l, mirror, base); err != nil {
		return err
	}
	if err := m.moveGroup(ctx, l, stop, func() error {
		stopWriting()
		return <-written
	}); err != nil {
		return err
	}
	m.found("%s: %d records written during the copy of %d, which took %v with the move", m.step, m.w.total-before, base, time.Since(begin).Round(time.Second))
	return m.compare(ctx, l, mirror)
}

// killDuring waits until the copy has most of base records, and kills MirrorMaker and Seb in turns meanwhile.
func (m *move) killDuring(ctx context.Context, l *leg, mirror *process, base int64) error {
	steps := int64(2*m.kills + 1)
	for k := range steps {
		want := base * (k + 1) / steps
		err := await(ctx, copyTime, "the copy continues", func() (bool, error) {
			select {
			case <-mirror.run.Done():
				return false, fmt.Errorf("MirrorMaker ended by itself:\n%s", mirror.run.Log())
			default:
			}
			n, _ := l.to.written(ctx, orders, stock) // the topics may not be there yet
			m.progress("%s: %d of %d records copied, %d of %d kills", m.step, n, base, k, steps-1)
			return n >= want, nil
		})
		if err != nil || k == steps-1 {
			return err
		}
		if k%2 == 1 {
			err = m.seb.kill(ctx)
		} else {
			mirror.run.Kill()
			err = mirror.start(m.dir, "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// caughtUp waits until the copy lacks only records of the last seconds.
func (m *move) caughtUp(ctx context.Context, l *leg) error {
	return await(ctx, copyTime, "the copy catches up", func() (bool, error) {
		r, err := m.check(ctx, l.check)
		if err != nil {
			return false, err
		}
		missing := r.sum(figures["missing"])
		m.progress("%s: %d records missing", m.step, missing)
		return missing <= 10*m.rate, nil
	})
}

// moveGroup moves the group while the producer runs, and then ends the producer.
func (m *move) moveGroup(ctx context.Context, l *leg, stop func() (*stage, error), stopWriting func() error) error {
	if err := m.caughtUp(ctx, l); err != nil {
		return err
	}
	s, err := stop()
	if err != nil {
		return err
	}
	m.found("%s: group %s at %s: %v", m.step, billing, l.from.name, s)
	time.Sleep(syncTime)
	if l.to == m.kafka {
		out, _, err := m.command(ctx, commandGroups, "")
		if err != nil {
			return err
		}
		if strings.Count(out, orders) != ordersPartitions {
			m.fault("kafka-consumer-groups.sh does not show the group's partitions:\n%s", out)
		}
	}
	if stop, err = m.billing.start(l.to); err != nil {
		return err
	}
	time.Sleep(5 * time.Second) // the producer still runs
	err = stopWriting()
	if err == nil {
		err = m.readAll(ctx)
	}
	s, stopped := stop()
	if err := errors.Join(err, stopped); err != nil {
		return err
	}
	m.found("%s: group %s at %s: %v", m.step, billing, l.to.name, s)
	return nil
}

// compare compares both clusters with each other and with what was written, and stops MirrorMaker.
func (m *move) compare(ctx context.Context, l *leg, mirror *process) error {
	var r *checked
	err := await(ctx, copyTime, "the copy is complete", func() (bool, error) {
		var err error
		m.progress("%s: check", m.step)
		if r, err = m.check(ctx, l.check); err != nil {
			return false, err
		}
		return r.sum(func(p *checkedPartition) int64 { return p.Missing + p.Changed }) == 0, nil
	})
	if err != nil {
		return err
	}
	mirror.run.Stop()
	out, code, err := m.command(ctx, l.check, "")
	if err != nil {
		return err
	}
	m.found("%s: seb migrate check, exit code %d:\n  %s", m.step, code, strings.ReplaceAll(strings.TrimSpace(out), "\n", "\n  "))
	if r, err = m.check(ctx, l.check); err != nil {
		return err
	}
	if err := errors.Join(m.settings(ctx, l.to), m.untouched(ctx, l)); err != nil {
		return err
	}
	here, err := m.judgeSide(ctx, l.from, r, func(p *checkedPartition) int64 { return p.From.Records })
	if err != nil {
		return err
	}
	there, err := m.judgeSide(ctx, l.to, r, func(p *checkedPartition) int64 { return p.To.Records })
	if err != nil {
		return err
	}
	doubled := r.sum(figures["doubled"])
	if there.doubled-here.doubled != doubled {
		m.fault("%s: the check found %d doubled records, the copy has %d more", m.step, doubled, there.doubled-here.doubled)
	}
	if doubled > 0 && len(l.changes) == 0 {
		m.fault("%s: the settings of the guide doubled %d records", m.step, doubled)
	}
	g, err := behind(ctx, audit, l.from, l.to, here, there)
	if err != nil {
		return err
	}
	m.found("%s: group %s, which is behind: reads %d records again, skips %d; %d partitions have no offset", m.step, audit, g.again, g.skipped, g.none)
	if g.skipped > 0 {
		m.fault("group %s skips records", audit)
	}
	if l.to == m.kafka && m.back {
		return nil
	}
	return m.falsify(ctx, l, r)
}

// settings checks that settings of topics were copied.
func (m *move) settings(ctx context.Context, c *cluster) error {
	return c.admin(func(a *kadm.Client) error {
		all, err := a.DescribeTopicConfigs(ctx, orders, stock)
		if err != nil {
			return err
		}
		for topic, want := range map[string]kadm.Config{ //tidy:unordered each is compared alone
			orders: {Key: "retention.ms", Value: new(retentionMillis)},
			stock:  {Key: "cleanup.policy", Value: new("compact")},
		} {
			r, err := all.On(topic, nil)
			if err != nil || r.Err != nil {
				return errors.Join(err, r.Err)
			}
			if !slices.ContainsFunc(r.Configs, func(g kadm.Config) bool { return g.Key == want.Key && g.MaybeValue() == *want.Value }) {
				m.fault("%s: topic %s does not have %s=%s", c.name, topic, want.Key, *want.Value)
			}
		}
		return nil
	})
}

// untouched checks that MirrorMaker makes no topic at Seb when it only reads there.
func (m *move) untouched(ctx context.Context, l *leg) error {
	if l.from != m.seb {
		return nil
	}
	return m.seb.admin(func(a *kadm.Client) error {
		topics, err := a.ListTopics(ctx)
		if names := topics.Names(); err == nil && !slices.Equal(names, []string{orders, stock}) {
			m.fault("seb has the topics %q", names)
		}
		return err
	})
}

// falsify makes the clusters differ by a record that is doubled, one that is missing and one that is changed, and
// checks that the check finds them. before is its result.
func (m *move) falsify(ctx context.Context, l *leg, before *checked) error {
	value := func(v string, partition int32) *kgo.Record {
		return &kgo.Record{Topic: orders, Partition: partition, Key: []byte("false"), Value: []byte(v), Timestamp: time.UnixMilli(1)}
	}
	for _, side := range []struct {
		*cluster
		records []*kgo.Record
	}{
		{l.from, []*kgo.Record{value("doubled", 0), value("missing", 1), value("changed", 2)}},
		{l.to, []*kgo.Record{value("doubled", 0), value("doubled", 0), value("other", 2)}},
	} {
		client, err := kgo.NewClient(side.options(kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
		if err != nil {
			return err
		}
		err = client.ProduceSync(ctx, side.records...).FirstErr()
		client.Close()
		if err != nil {
			return err
		}
	}
	after, err := m.check(ctx, l.check)
	if err != nil {
		return err
	}
	wrong := len(m.faults)
	for name, figure := range figures { //tidy:unordered each is compared alone
		want := int64(1)
		if name == "extra" {
			want = 0
		}
		if got := after.sum(figure) - before.sum(figure); got != want {
			m.fault("the check found %d more records %s, want %d", got, name, want)
		}
	}
	if len(m.faults) == wrong {
		m.found("%s: then one record more was missing, one doubled and one changed, and the check found them", m.step)
	}
	return nil
}

// figures are the differences that a check counts.
var figures = map[string]func(p *checkedPartition) int64{
	"missing": func(p *checkedPartition) int64 { return p.Missing },
	"doubled": func(p *checkedPartition) int64 { return p.Doubled },
	"extra":   func(p *checkedPartition) int64 { return p.Extra },
	"changed": func(p *checkedPartition) int64 { return p.Changed },
}

// judgeSide judges a cluster after a leg.
func (m *move) judgeSide(ctx context.Context, c *cluster, r *checked, records func(*checkedPartition) int64) (*copied, error) {
	var counts [ordersPartitions]int64
	for _, t := range r.Topics {
		if t.Topic == orders {
			for i := range t.Partitions {
				counts[t.Partitions[i].Partition] = records(&t.Partitions[i])
			}
		}
	}
	j, err := m.judge(ctx, c, counts)
	if err != nil {
		return nil, err
	}
	wrong, err := m.keys(ctx, c)
	if err != nil {
		return nil, err
	}
	m.found("%s has of %v records of %s: %d lost, %d out of order, %d doubled; of the keys of %s %d wrong",
		c.name, m.w.next[orders], orders, j.lost, j.disorder, j.doubled, stock, wrong)
	for _, a := range j.agains {
		m.found("  partition %d: after record %d it begins at %d again, %d records doubled", a.partition, a.before, a.number, a.records)
	}
	if j.lost+j.disorder+wrong > 0 {
		m.fault("%s: records are lost or out of order", c.name)
	}
	return j, nil
}
