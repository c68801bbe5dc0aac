package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
)

// topicBodyMax bounds the body of PUT /topic.
const topicBodyMax = 64 << 10

func (a *API) getTopic(w http.ResponseWriter, r *http.Request, _ *caller) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	name, partition, latest := q.Topic(), max(q.Partition(), 0), q.Latest()
	if q.Fault != nil {
		return q.Fault
	}
	memory, err := a.reserveTopic(name, 0)
	if err != nil {
		return err
	}
	defer memory.Release()
	info, err := a.b.Topic(r.Context(), name, latest)
	if err != nil {
		return err
	}
	if int(partition) >= len(info.Partitions) {
		return UnknownPartition(name, partition, len(info.Partitions))
	}
	return a.writeTopic(w, http.StatusOK, topicOf(&info, partition))
}

func (a *API) getTopics(w http.ResponseWriter, r *http.Request, by *caller) error {
	page, err := pageOf(r)
	if err != nil {
		return err
	}
	if err := a.fresh(r); err != nil {
		return err
	}
	a.readHeaders(w)
	l := a.newList(w, "topics", page.most)
	for _, ref := range a.b.TopicRefs() {
		if !page.has(ref.Name) || !by.Allow(access.Describe, access.Topic, ref.Name) {
			continue
		}
		err := l.add(r.Context(), ref.Name, topicBytes+int64(ref.Partitions)*partitionBytes, func() (any, error) {
			info, err := a.b.Topic(r.Context(), ref.Name, false)
			if errors.Is(err, state.ErrUnknownTopic) {
				return nil, nil
			}
			t := topicOf(&info, 0)
			return &t, err
		})
		if err != nil {
			return l.end(err)
		}
	}
	return l.end(nil)
}

// Upper bounds of the memory of a topic and a partition in an answer, decoded and encoded.
const (
	topicBytes     = 16 << 10
	partitionBytes = 384
)

// reserveTopic reserves memory for an answer about a topic of at least this many partitions.
func (a *API) reserveTopic(name string, partitions int) (*budget.Reservation, error) {
	if n, err := a.b.Partitions(name); err == nil {
		partitions = max(partitions, n)
	}
	return a.small(topicBytes + int64(partitions)*partitionBytes)
}

// putTopic creates a topic or changes an existing one. If-None-Match: * refuses a change.
func (a *API) putTopic(w http.ResponseWriter, r *http.Request, by *caller) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	name := q.Topic()
	if q.Fault != nil {
		return q.Fault
	}
	condition, err := httpconn.IfNoneMatch(r)
	if err != nil {
		return err
	}
	if a.b.ReadOnly() {
		return state.ErrReadOnly
	}
	spec, err := a.readSpec(w, r)
	if err != nil {
		return err
	}
	memory, err := a.reserveTopic(name, min(spec.Partitions, state.PartitionsMax))
	if err != nil {
		return err
	}
	defer memory.Release()
	ctx, cancel := context.WithTimeout(r.Context(), a.o.AckTimeout)
	defer cancel()
	onlyNew := condition != nil && condition.Any // topics have no entity tags
	status := http.StatusOK
	var info broker.TopicInfo
	err = state.ErrUnknownTopic
	if !onlyNew {
		info, err = a.updateTopic(ctx, by, name, spec)
	}
	if errors.Is(err, state.ErrUnknownTopic) {
		status = http.StatusCreated
		info, err = a.createTopic(ctx, by, name, created(spec))
		if !onlyNew && errors.Is(err, state.ErrTopicExists) { // created concurrently
			status = http.StatusOK
			info, err = a.updateTopic(ctx, by, name, spec)
		}
	}
	if err != nil {
		return err
	}
	return a.writeTopic(w, status, topicOf(&info, 0))
}

func (a *API) createTopic(ctx context.Context, by *caller, name string, spec broker.TopicSpec) (broker.TopicInfo, error) {
	ctx, err := by.changing(ctx, access.Create, access.Topic, name)
	if err != nil {
		return broker.TopicInfo{}, neitherCreateNorAlter(err, name)
	}
	return a.b.CreateTopic(ctx, name, spec)
}

// updateTopic changes a topic that exists. Partitions need the right to alter, settings that to
// alter configurations.
func (a *API) updateTopic(ctx context.Context, by *caller, name string, spec broker.TopicSpec) (broker.TopicInfo, error) {
	if _, err := a.b.Partitions(name); err != nil {
		return broker.TopicInfo{}, err
	}
	var err error
	outer := ctx
	if len(spec.Settings) > 0 {
		ctx, err = by.changing(outer, access.AlterConfigs, access.Topic, name)
	}
	if err == nil && (spec.Partitions > 0 || len(spec.Settings) == 0) {
		ctx, err = by.changing(outer, access.Alter, access.Topic, name)
	}
	if err != nil {
		return broker.TopicInfo{}, neitherCreateNorAlter(err, name)
	}
	return a.b.UpdateTopic(ctx, name, spec)
}

// neitherCreateNorAlter makes a forbidden the same for topics that exist and for others.
func neitherCreateNorAlter(err error, name string) error {
	if p := problemOf(err); p.Code != api.Forbidden {
		return err
	}
	return problem.New(api.Forbidden, "the key does not allow create or alter on topic %s", problem.Quote(name))
}

// created converts a spec for a new topic: there is no setting to remove.
func created(spec broker.TopicSpec) broker.TopicSpec {
	set := map[string]string{}
	for k, v := range spec.Settings {
		if v != "" {
			set[k] = v
		}
	}
	spec.Settings = set
	return spec
}

func (a *API) deleteTopic(w http.ResponseWriter, r *http.Request, by *caller) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	name, remove := q.Topic(), a.b.DeleteTopic
	if q.Force() {
		remove = a.b.ForceDeleteTopic
	}
	if q.Fault != nil {
		return q.Fault
	}
	if a.b.ReadOnly() {
		return state.ErrReadOnly
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.o.AckTimeout)
	defer cancel()
	ctx, err := by.changing(ctx, access.Delete, access.Topic, name)
	if err == nil {
		err = remove(ctx, name)
	}
	if errors.Is(err, broker.ErrTopicInUse) && !by.Allow(access.Describe, access.Trigger, access.Any) {
		return problem.New(api.TopicInUse, "triggers use the topic; use force to delete it anyway")
	}
	if err != nil {
		return err
	}
	return a.changed(w)
}

func (a *API) writeTopic(w http.ResponseWriter, status int, t api.Topic) error {
	return a.writeState(w, status, &t)
}

func topicOf(info *broker.TopicInfo, partition int32) api.Topic {
	t := api.Topic{Name: info.Name, ID: info.ID.String(), Settings: info.Settings, Partitions: make([]api.Partition, len(info.Partitions))}
	if t.Settings == nil {
		t.Settings = map[string]string{}
	}
	for i, p := range info.Partitions {
		t.Partitions[i] = partitionOf(int32(i), &p)
	}
	t.NextOffset, t.LatestCommitAt = t.Partitions[partition].Next, t.Partitions[partition].LatestCommit
	return t
}

// readSpec reads the body of PUT /topic. An empty body means defaults, or no change.
func (a *API) readSpec(w http.ResponseWriter, r *http.Request) (spec broker.TopicSpec, err error) {
	var in api.TopicSpec
	memory, err := a.decodeIf(w, r, topicBodyMax, &in)
	if err != nil {
		return spec, err
	}
	defer memory.Release()
	if in.Partitions < 0 {
		return spec, problem.BadField("partitions", "want 1 or more, given %d", in.Partitions)
	}
	spec.Partitions = in.Partitions
	spec.Settings, err = settingTexts(in.Settings)
	return spec, err
}

// decodeIf is decode for a body that may be empty, and changes nothing then.
func (a *API) decodeIf(w http.ResponseWriter, r *http.Request, limit int64, into any) (*budget.Reservation, error) {
	memory, err := a.reserveBody(r, limit)
	if err != nil {
		return nil, err
	}
	body, err := httpconn.Small(w, r, limit)
	if err == nil && len(bytes.TrimSpace(body)) > 0 {
		err = httpconn.Decode(body, into)
	}
	if err != nil {
		memory.Release()
		return nil, err
	}
	return memory, nil
}

// settingTexts returns the values of settings as texts; nil if there are none.
func settingTexts(in map[string]json.RawMessage) (texts map[string]string, err error) {
	for name, value := range in {
		if texts == nil {
			texts = map[string]string{}
		}
		if texts[name], err = settingText(name, value); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// settingText returns a setting's value as text: strings unquoted, numbers and booleans as written,
// null as "".
func settingText(name string, value json.RawMessage) (string, error) {
	var text string
	switch value[0] {
	case '"', 'n':
		if err := json.Unmarshal(value, &text); err != nil {
			return "", problem.BadField(name, "%v", err)
		}
		return text, nil
	case '{', '[':
		return "", problem.BadField(name, "want a string, a number, a boolean or null")
	}
	return string(value), nil
}

// postTrim deletes the records of a partition below an offset.
func (a *API) postTrim(w http.ResponseWriter, r *http.Request, by *caller) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	topic, partition, offset := q.Topic(), q.NamedPartition(), q.Offset()
	if q.Fault != nil {
		return q.Fault
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.o.AckTimeout)
	defer cancel()
	ctx, err := by.changing(ctx, access.Delete, access.Topic, topic)
	if err != nil {
		return err
	}
	info, err := a.b.Trim(ctx, topic, partition, offset)
	if err != nil {
		return a.atOffset(err, topic, partition, offset)
	}
	a.readHeaders(w)
	out := partitionOf(partition, &info)
	return a.writeJSON(w, http.StatusOK, &out)
}

// atOffset adds the position to an error.
func (a *API) atOffset(err error, topic string, partition int32, offset int64) error {
	p := *problemOf(err)
	if p.Code == api.Internal {
		return err // logged unchanged
	}
	p.Topic, p.Partition = topic, &partition
	if p.Code == api.OffsetBeyondEnd {
		p.Offset = &offset
	}
	return &p
}

func partitionOf(partition int32, p *broker.PartitionInfo) api.Partition {
	return api.Partition{
		Partition: partition, Start: p.Start, Next: p.Next, LastStable: p.Stable, LatestCommit: p.LatestCommit.UTC(),
		Records: p.Records, Bytes: p.Bytes, Compacted: p.Compacted,
	}
}

// getSettings lists the settings of topics and of queues, from the tables that validate them.
func (a *API) getSettings(w http.ResponseWriter, _ *http.Request, _ *caller) error {
	return a.writeJSON(w, http.StatusOK, api.Settings{Settings: settingsOf(state.SettingTable()), Queues: settingsOf(state.QueueSettingTable())})
}

func settingsOf(table []state.Setting) (all []api.Setting) {
	for _, d := range table {
		all = append(all, api.Setting{
			Name: d.Name, Default: d.Default, DefaultCompacted: d.DefaultCompacted, Choices: d.Choices, Unit: d.Unit,
			Min: d.Min, Max: d.Max, Unlimited: d.Unlimited, Meaning: d.Meaning,
		})
	}
	return all
}

// offsetAnswerBytes bounds the memory of a partition in an answer about offsets by time.
const offsetAnswerBytes = 1 << 10

// getTopicOffsets answers with the first offset of each partition whose record time is at or after
// a time, as Kafka's ListOffsets does. It looks at one partition after the other.
func (a *API) getTopicOffsets(w http.ResponseWriter, r *http.Request, _ *caller) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	name, only, latest, isolation := q.Topic(), q.Partition(), q.Latest(), isolationOf(q)
	edge, _ := q.Text(httpconn.ParamTime)
	millis := int64(0)
	if edge != Earliest && edge != Latest {
		edge, millis = "", q.Time()
	}
	if q.Fault != nil {
		return q.Fault
	}
	if latest || edge == Latest {
		// A leader that was deposed and has not noticed must not report an old end (rule R11).
		if err := a.b.Confirm(r.Context()); err != nil {
			return err
		}
	}
	ref, ok := a.b.TopicNamed(name)
	switch {
	case !ok:
		return state.ErrUnknownTopic
	case int(only) >= ref.Partitions:
		return UnknownPartition(name, only, ref.Partitions)
	}
	first, end := int32(0), int32(ref.Partitions)
	if only >= 0 {
		first, end = only, only+1
	}
	a.readHeaders(w)
	l := a.newList(w, "partitions", 0)
	for p := first; p < end; p++ {
		err := l.add(r.Context(), "", offsetAnswerBytes, func() (any, error) {
			out, err := a.offsetAt(r.Context(), broker.Lookup{Topic: &ref, Partition: p, Isolation: isolation}, edge, millis)
			return &out, err
		})
		if err != nil {
			return l.end(err)
		}
	}
	return l.end(nil)
}

// offsetAt finds the offset of one partition. It reads the bounds first: if no record up to that end
// has reached the time, a reader from that end on sees every later record that does.
func (a *API) offsetAt(ctx context.Context, l broker.Lookup, edge string, millis int64) (api.PartitionOffset, error) {
	out := api.PartitionOffset{Partition: l.Partition}
	bounds, err := a.b.Bounds(l.Topic.ID, l.Partition)
	if err != nil {
		return out, err
	}
	switch edge {
	case Earliest:
		out.Offset = bounds.Start
		return out, nil
	case Latest:
		out.Offset = bounds.End(l.Isolation)
		return out, nil
	}
	offset, at, err := a.b.OffsetSince(ctx, l, millis)
	if out.Offset = bounds.End(l.Isolation); offset >= 0 {
		out.Offset, out.Timestamp = offset, &at
	}
	return out, err
}
