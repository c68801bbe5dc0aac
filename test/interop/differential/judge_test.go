package differential

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// show formats an outcome.
func show(o outcome) string {
	switch {
	case o.err != nil:
		return o.err.Error()
	case o.closed:
		return "the end of the connection"
	case o.resp == nil:
		return "nothing"
	}
	const most = 4000
	text := fmt.Sprintf("%+v", o.resp)
	if s, err := jsonOf(o.resp); err == nil {
		text = s
	}
	if len(text) > most {
		text = text[:most] + "…"
	}
	return text
}

// errOtherLeader ends a run without a failure. When a group's leader has left, Kafka chooses any
// other member, in the order of a hash table. Further steps depend on the choice.
var errOtherLeader = errors.New("another member is the leader: Kafka has chosen it")

func otherLeader(difference string) bool {
	return strings.Contains(difference, " LeaderID: Kafka member") && strings.Contains(difference, ", Seb member")
}

// judge compares two outcomes and updates the generator from Kafka's answer. An error is an
// unexpected difference.
func (r *run) judge(st *step, out [2]outcome) error {
	if err := errors.Join(out[0].err, out[1].err); err != nil {
		return r.report(st, out, err.Error())
	}
	r.compared++
	r.served[[2]int16{int16(st.key), st.version}]++
	if r.codes != nil && out[0].resp != nil {
		r.note(st, out[0])
	}
	bad, diverges := r.differences(st, out)
	if len(bad) > 0 && st.key == kmsg.JoinGroup && slices.ContainsFunc(bad, otherLeader) {
		return errOtherLeader
	} else if len(bad) > 0 {
		return r.report(st, out, strings.Join(bad, "\n  "))
	}
	if diverges {
		r.diverge(st)
	}
	for i := range out {
		if made, ok := out[i].resp.(*kmsg.CreateTopicsResponse); ok && !st.dry {
			for _, t := range made.Topics {
				if t.ErrorCode == 0 {
					r.made[i] = append(r.made[i], t.Topic)
				}
			}
		}
	}
	if st.after != nil && out[0].resp != nil {
		st.after(out[0].resp)
	}
	return nil
}

// note counts Kafka's codes and adds them to the history.
func (r *run) note(st *step, kafka outcome) {
	said := map[string]bool{}
	for path, code := range r.flat(r.kafka, kafka) {
		if strings.HasSuffix(path, "ErrorCode") {
			r.codes[st.key.Name()+" "+code]++
			said[code] = true
		}
	}
	if last := &r.history[len(r.history)-1]; !strings.Contains(*last, " -> ") {
		*last += fmt.Sprintf(" -> %v", slices.Sorted(maps.Keys(said)))
	}
}

// differences returns the unexpected differences. diverges means that a wanted one leaves the
// brokers with different data.
func (r *run) differences(st *step, out [2]outcome) (bad []string, diverges bool) {
	var list []*difference
	if ends := [2]string{ending(out[0]), ending(out[1])}; ends[0] != ends[1] {
		d := &difference{key: st.key, version: st.version, path: "", kafka: ends[0], seb: ends[1], step: st}
		d.kafkaSays, d.sebSays = r.flat(r.kafka, out[0]), r.flat(r.seb, out[1])
		list = append(list, d)
	} else if out[0].resp != nil {
		if st.key == kmsg.ApiVersions {
			return r.subset(out), false
		}
		if r.alter != nil {
			r.alter(out[1].resp)
		}
		list = compare(st, st.version, r.flat(r.kafka, out[0]), r.flat(r.seb, out[1]))
	}
	var absorbed []string // consequences of a wanted code
	for _, d := range list {
		if w := wantedFor(d); w != nil && strings.HasSuffix(d.path, "ErrorCode") {
			absorbed = append(absorbed, strings.TrimSuffix(d.path, "ErrorCode"))
		}
	}
	for _, d := range list {
		w := wantedFor(d)
		if w == nil && slices.ContainsFunc(absorbed, func(around string) bool { return strings.HasPrefix(d.path, around) }) {
			continue
		}
		if w == nil {
			bad = append(bad, d.String())
			continue
		}
		r.wanted[w.what]++
		diverges = diverges || w.diverges
	}
	return bad, diverges
}

// subset compares the supported versions: Seb's must be among Kafka's.
func (r *run) subset(out [2]outcome) (bad []string) {
	k, s := out[0].resp.(*kmsg.ApiVersionsResponse), out[1].resp.(*kmsg.ApiVersionsResponse)
	if k.ErrorCode != s.ErrorCode {
		bad = append(bad, fmt.Sprintf("ApiVersions ErrorCode: Kafka %d, Seb %d", k.ErrorCode, s.ErrorCode))
	}
	if k.ErrorCode != 0 {
		return bad // Kafka lists only ApiVersions then
	}
	of := map[int16]kmsg.ApiVersionsResponseApiKey{}
	for _, a := range k.ApiKeys {
		of[a.ApiKey] = a
	}
	for _, a := range s.ApiKeys {
		b, ok := of[a.ApiKey]
		switch {
		case !ok:
			bad = append(bad, fmt.Sprintf("ApiVersions: Kafka has no %s", kmsg.NameForKey(a.ApiKey)))
		case slices.Contains(moreVersions, kmsg.Key(a.ApiKey)):
			r.wanted[moreVersionsRow]++
		case a.MinVersion < b.MinVersion || a.MaxVersion > b.MaxVersion:
			bad = append(bad, fmt.Sprintf("ApiVersions of %s: Kafka %d to %d, Seb %d to %d", kmsg.NameForKey(a.ApiKey), b.MinVersion, b.MaxVersion, a.MinVersion, a.MaxVersion))
		}
	}
	return bad
}

func (r *run) flat(s *side, o outcome) fields {
	if o.resp == nil {
		return nil
	}
	return flatten(s, o.resp, r.gen.prefix)
}

// ending describes how a request has ended.
func ending(o outcome) string {
	switch {
	case o.closed:
		return "closed"
	case o.resp != nil:
		return "answered"
	}
	return "nothing"
}

// request returns a step's request as sent to Kafka.
func (r *run) request(st *step) string {
	if st.raw != nil {
		return fmt.Sprintf("%x", st.raw(r.kafka))
	}
	req := st.build(r.kafka)
	req.SetVersion(st.version)
	text, err := jsonOf(req)
	if err != nil {
		return err.Error()
	}
	const most = 3000
	if len(text) > most {
		text = text[:most] + "…"
	}
	return text
}

func (r *run) report(st *step, out [2]outcome, what string) error {
	return fmt.Errorf("%s v%d, %s\n  %s\nrequest: %s\nKafka: %s\nSeb: %s", kmsg.NameForKey(int16(st.key)), st.version, st.what, what, r.request(st), show(out[0]), show(out[1]))
}

// diverge deletes the topics of a step on both sides.
func (r *run) diverge(st *step) {
	r.apart = true
	for name := range r.gen.topics {
		if strings.Contains(st.what, name) {
			r.diverged = append(r.diverged, name)
		}
	}
}

// settle waits until both brokers return the same topics. After a wanted difference it deletes
// topics that differ.
func (r *run) settle() error {
	began := time.Now()
	for ; ; time.Sleep(againWait) {
		var seen [2]map[string]*topic
		for i, s := range r.sides() {
			var err error
			if seen[i], err = s.look(r.gen.prefix); err != nil {
				return err
			}
		}
		differ := unequal(seen)
		late := r.late(seen)
		if !late && len(r.diverged) > 0 {
			if err := r.remove(r.diverged); err != nil {
				return err
			}
			r.made, r.diverged = [2][]string{}, nil
			continue
		}
		if len(differ) == 0 && !late {
			ready, err := r.kafka.serves(seen[0], r.gen.topics)
			if err != nil {
				return err
			}
			if ready {
				r.made, r.apart = [2][]string{}, false
				r.gen.sees(seen[0])
				for _, s := range r.sides() {
					maps.DeleteFunc(s.topics, func(name string, _ [16]byte) bool { return seen[0][name] == nil })
				}
				return nil
			}
		}
		if took := time.Since(began); took > lagTime {
			return fmt.Errorf("topics differ: Kafka has %s, Seb %s", names(seen[0]), names(seen[1]))
		} else if r.apart && !late && took > lagTime/40 {
			r.made = [2][]string{}
			if err := r.remove(differ); err != nil {
				return err
			}
		}
	}
}

// serves reports whether a broker returns offsets of all new partitions. It may list them slightly
// earlier.
func (s *side) serves(now, before map[string]*topic) (bool, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if old := before[name]; old != nil && old.partitions == now[name].partitions {
			continue
		}
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = name
		for n := range int32(now[name].partitions) {
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.Timestamp = n, -1
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	if len(req.Topics) == 0 {
		return true, nil
	}
	c, err := s.client(mainActor)
	if err != nil {
		return false, err
	}
	const version = 6
	o := c.ask(req, version)
	resp, ok := o.resp.(*kmsg.ListOffsetsResponse)
	if !ok {
		return false, fmt.Errorf("%s: no offsets: %s", s.name, show(o))
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				return false, nil
			}
		}
	}
	return true, nil
}

// late reports whether a broker does not list its created topics yet.
func (r *run) late(seen [2]map[string]*topic) bool {
	for i := range seen {
		for _, name := range r.made[i] {
			if seen[i][name] == nil {
				return true
			}
		}
	}
	return false
}

// unequal returns the topics that only one of the brokers lists, or that differ in their number of
// partitions.
func unequal(seen [2]map[string]*topic) []string {
	var list []string
	for i := range seen {
		for name, t := range seen[i] {
			if other := seen[1-i][name]; other == nil || other.partitions != t.partitions {
				list = append(list, name)
			}
		}
	}
	return list
}

// remove deletes existing topics on both sides.
func (r *run) remove(topics []string) error {
	for _, name := range topics {
		for _, s := range r.sides() {
			c, err := s.client(mainActor)
			if err != nil {
				return err
			}
			const version = 5
			req := kmsg.NewPtrDeleteTopicsRequest()
			req.TimeoutMillis, req.TopicNames = 20_000, []string{name}
			if o := c.ask(req, version); o.resp == nil {
				return fmt.Errorf("%s does not delete %s: %s", s.name, name, show(o))
			}
		}
	}
	return nil
}

func names(m map[string]*topic) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, fmt.Sprintf("%s (%d partitions)", name, m[name].partitions))
	}
	return strings.Join(list, ", ")
}

// sees takes over the existing topics.
func (w *generator) sees(now map[string]*topic) {
	for name, t := range now {
		old := w.topics[name]
		if old == nil {
			t.starts, t.ends = map[int32]int64{}, map[int32]int64{}
			w.topics[name] = t
			continue
		}
		old.partitions = t.partitions
	}
	maps.DeleteFunc(w.topics, func(name string, _ *topic) bool { return now[name] == nil })
}

// look returns the topics of a seed that a broker lists.
func (s *side) look(prefix string) (map[string]*topic, error) {
	c, err := s.client(mainActor)
	if err != nil {
		return nil, err
	}
	const version = 12
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = nil
	o := c.ask(req, version)
	resp, ok := o.resp.(*kmsg.MetadataResponse)
	if !ok {
		return nil, fmt.Errorf("%s: no metadata: %s", s.name, show(o))
	}
	s.learn(&step{}, resp)
	found := map[string]*topic{}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if !strings.HasPrefix(*t.Topic, prefix) {
			continue
		}
		ready := 0
		for j := range t.Partitions {
			if t.Partitions[j].ErrorCode == 0 && t.Partitions[j].Leader >= 0 {
				ready++
			}
		}
		found[*t.Topic] = &topic{name: *t.Topic, partitions: ready}
	}
	return found, nil
}
