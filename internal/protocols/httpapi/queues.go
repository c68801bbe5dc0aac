package httpapi

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/internal/engine/stats"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
)

// Path variables of queues.
const (
	variableQueue   = "queue"
	variableMessage = "message"
)

// Bounds of memory: of a queue in an answer, of the body of PUT /queues/{queue}, and of the bodies of one
// list or one step of a redrive.
const (
	queueBytes    = 16 << 10
	queueBodyMax  = 64 << 10
	messagesBytes = 4 << 20
)

// queues returns the queues of the broker.
func (a *API) queues() (*queue.Queues, error) {
	if a.o.Queues == nil {
		return nil, problem.New(api.NotFound, "this broker has no queues")
	}
	return a.o.Queues, nil
}

// changingQueue prepares a change of the queue of a path that needs a right to its topic. The caller calls
// cancel.
func (a *API) changingQueue(r *http.Request, by *caller, o access.Operation) (q *queue.Queues, ctx context.Context, cancel func(), err error) {
	if q, err = a.queues(); err != nil {
		return nil, nil, nil, err
	}
	if a.b.ReadOnly() {
		return nil, nil, nil, state.ErrReadOnly
	}
	if ctx, err = by.changing(r.Context(), o, access.Topic, r.PathValue(variableQueue)); err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel = context.WithTimeout(ctx, a.o.AckTimeout)
	return q, ctx, cancel, nil
}

func (a *API) getQueues(w http.ResponseWriter, r *http.Request, by *caller) error {
	q, err := a.queues()
	if err != nil {
		return err
	}
	page, err := pageOf(r)
	if err != nil {
		return err
	}
	if err := a.fresh(r); err != nil {
		return err
	}
	a.readHeaders(w)
	l := a.newList(w, "queues", page.most)
	for _, name := range q.Names() {
		if !page.has(name) || !by.Allow(access.Describe, access.Topic, name) {
			continue
		}
		err := l.add(r.Context(), name, queueBytes, func() (any, error) {
			info, err := q.Info(name)
			if errors.Is(err, state.ErrUnknownTopic) {
				return nil, nil
			}
			return a.queueOf(&info), err
		})
		if err != nil {
			return l.end(err)
		}
	}
	return l.end(nil)
}

func (a *API) getQueue(w http.ResponseWriter, r *http.Request, _ *caller) error {
	q, err := a.queues()
	if err != nil {
		return err
	}
	params := httpconn.ParseParams(r.URL.RawQuery)
	latest := params.Latest()
	if params.Fault != nil {
		return params.Fault
	}
	if latest {
		if err := a.b.Confirm(r.Context()); err != nil {
			return err
		}
	}
	memory, err := a.small(queueBytes)
	if err != nil {
		return err
	}
	defer memory.Release()
	info, err := q.Info(r.PathValue(variableQueue))
	if err != nil {
		return err
	}
	return a.writeState(w, http.StatusOK, a.queueOf(&info))
}

// queueOf returns a queue as in answers.
func (a *API) queueOf(i *queue.Info) *api.Queue {
	out := &api.Queue{
		Name: i.Name, ID: i.ID.String(), Priorities: i.Priorities, Settings: i.Settings, Effective: map[string]string{},
		Ready: i.Ready, Leased: i.InFlight, Delayed: i.Delayed, Retry: i.Retrying, Dying: i.Dying, Dead: i.Dead, Sent: i.Sent, Bytes: i.Bytes,
		LookAheadFull: i.Blocked, Full: i.Full,
	}
	for _, s := range state.QueueSettingTable() {
		out.Effective[s.Name] = s.Default
	}
	maps.Copy(out.Effective, i.Settings)
	out.Effective["max-deliveries"] = strconv.Itoa(i.Effective.MaxDeliveries)
	if !i.Oldest.IsZero() {
		now, _ := a.b.Now()
		out.OldestAt, out.OldestSeconds = i.Oldest.UTC(), max(0, now.Sub(i.Oldest).Seconds())
	}
	return out
}

// getQueueStats answers with the figures of a queue in the last hours.
func (a *API) getQueueStats(w http.ResponseWriter, r *http.Request, _ *caller) error {
	q, err := a.queues()
	if err != nil {
		return err
	}
	name, span, err := windowOf(r)
	if err != nil {
		return err
	}
	info, err := q.Info(r.PathValue(variableQueue))
	if err != nil {
		return err
	}
	memory, err := a.small(int64(stats.QueueValues * statsBytes))
	if err != nil {
		return err
	}
	defer memory.Release()
	window, ok := stats.Window{}, false
	if a.o.Stats != nil {
		window, ok = a.o.Stats.QueueWindow(info.ID, span)
	}
	out := statsOf(name, &window)
	if !ok {
		out.Reason = "the broker keeps them of queues with messages, as many as --memory-limit has room for"
	}
	return a.writeJSON(w, http.StatusOK, out)
}

// putQueue creates a queue or changes the settings of an existing one. If-None-Match: * refuses a change.
func (a *API) putQueue(w http.ResponseWriter, r *http.Request, by *caller) error {
	q, err := a.queues()
	if err != nil {
		return err
	}
	name := r.PathValue(variableQueue)
	if err := state.CheckTopicName(name); err != nil {
		return problem.BadField(variableQueue, "%v", err)
	}
	condition, err := httpconn.IfNoneMatch(r)
	if err != nil {
		return err
	}
	if a.b.ReadOnly() {
		return state.ErrReadOnly
	}
	var in api.QueueSpec
	memory, err := a.decodeIf(w, r, queueBodyMax, &in)
	if err != nil {
		return err
	}
	defer memory.Release()
	if in.Priorities < 0 {
		return problem.BadField("priorities", "want 1 to %d, given %d", queue.PrioritiesMax, in.Priorities)
	}
	p := queuePut{b: a.b, q: q, by: by, name: name, spec: queue.Spec{Priorities: in.Priorities}}
	if p.spec.Settings, err = settingTexts(in.Settings); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.o.AckTimeout)
	defer cancel()
	info, status, err := p.put(ctx, condition != nil && condition.Any)
	if err != nil {
		return err
	}
	return a.writeState(w, status, a.queueOf(&info))
}

// queuePut is one PUT /queues/{queue}.
type queuePut struct {
	b    *broker.Broker
	q    *queue.Queues
	by   *caller
	name string
	spec queue.Spec
}

// put changes the queue, or creates it. onlyNew: it may not exist.
func (p *queuePut) put(ctx context.Context, onlyNew bool) (info queue.Info, status int, err error) {
	err = state.ErrUnknownTopic
	if !onlyNew {
		info, err = p.update(ctx)
	}
	if !errors.Is(err, state.ErrUnknownTopic) {
		return info, http.StatusOK, err
	}
	info, err = p.create(ctx)
	if !onlyNew && errors.Is(err, state.ErrTopicExists) { // created concurrently
		info, err = p.update(ctx)
		return info, http.StatusOK, err
	}
	return info, http.StatusCreated, err
}

// create creates the queue, with its dead-letter queue. That needs the right to create this, too, and to
// write to it.
func (p *queuePut) create(ctx context.Context) (queue.Info, error) {
	ctx, err := p.by.changing(ctx, access.Create, access.Topic, p.name)
	if err != nil {
		return queue.Info{}, neitherCreateNorAlter(err, p.name)
	}
	if p.spec.Settings["dead-letter"] == "" {
		letters := p.name + queue.DeadLetterSuffix
		if err := p.by.may(access.Create, access.Topic, letters); err != nil {
			return queue.Info{}, err
		}
		if _, known := p.b.TopicNamed(letters); known {
			if err := p.by.may(access.Write, access.Topic, letters); err != nil {
				return queue.Info{}, err
			}
		}
	}
	if err := p.mayBury(); err != nil {
		return queue.Info{}, err
	}
	return p.q.Create(ctx, p.name, p.spec)
}

func (p *queuePut) update(ctx context.Context) (queue.Info, error) {
	if _, known := p.b.TopicNamed(p.name); !known {
		return queue.Info{}, state.ErrUnknownTopic
	}
	ctx, err := p.by.changing(ctx, access.AlterConfigs, access.Topic, p.name)
	if err != nil {
		return queue.Info{}, neitherCreateNorAlter(err, p.name)
	}
	if err := p.mayBury(); err != nil {
		return queue.Info{}, err
	}
	return p.q.Update(ctx, p.name, p.spec)
}

// mayBury returns why the client may not name the dead-letter queue of the settings, or nil.
func (p *queuePut) mayBury() error {
	if to := p.spec.Settings["dead-letter"]; to != "" && to != state.NoDeadLetter {
		return p.by.may(access.Write, access.Topic, to)
	}
	return nil
}

func (a *API) deleteQueue(w http.ResponseWriter, r *http.Request, by *caller) error {
	q, ctx, cancel, err := a.changingQueue(r, by, access.Delete)
	if err != nil {
		return err
	}
	defer cancel()
	if err := q.Delete(ctx, r.PathValue(variableQueue)); err != nil {
		return err
	}
	return a.changed(w)
}

// pausingQueue answers POST /queues/{queue}/pause, and /resume with "", which removes the setting.
func pausingQueue(paused string) serveFunc {
	return func(a *API, w http.ResponseWriter, r *http.Request, by *caller) error {
		q, ctx, cancel, err := a.changingQueue(r, by, access.AlterConfigs)
		if err != nil {
			return err
		}
		defer cancel()
		memory, err := a.small(queueBytes)
		if err != nil {
			return err
		}
		defer memory.Release()
		info, err := q.Update(ctx, r.PathValue(variableQueue), queue.Spec{Settings: map[string]string{"paused": paused}})
		if err != nil {
			return err
		}
		return a.writeState(w, http.StatusOK, a.queueOf(&info))
	}
}

func (a *API) postPurge(w http.ResponseWriter, r *http.Request, by *caller) error {
	q, ctx, cancel, err := a.changingQueue(r, by, access.Delete)
	if err != nil {
		return err
	}
	defer cancel()
	n, err := q.Purge(ctx, r.PathValue(variableQueue))
	if err != nil {
		return err
	}
	return a.writeState(w, http.StatusOK, &api.Purged{Purged: n})
}

func (a *API) deleteMessage(w http.ResponseWriter, r *http.Request, by *caller) error {
	id, err := queue.ParseID(r.PathValue(variableMessage))
	if err != nil {
		return err
	}
	q, ctx, cancel, err := a.changingQueue(r, by, access.Delete)
	if err != nil {
		return err
	}
	defer cancel()
	if err := q.Cancel(ctx, r.PathValue(variableQueue), id); err != nil {
		return err
	}
	return a.changed(w)
}

// redriveBodyMax bounds the body of POST /queues/{queue}/redrive.
const redriveBodyMax = 8 << 10

func (a *API) postRedrive(w http.ResponseWriter, r *http.Request, by *caller) error {
	q, ctx, cancel, err := a.changingQueue(r, by, access.Read)
	if err != nil {
		return err
	}
	defer cancel()
	var in api.RedriveRequest
	body, err := a.decodeIf(w, r, redriveBodyMax, &in)
	if err != nil {
		return err
	}
	defer body.Release()
	req := queue.RedriveRequest{
		Queue: r.PathValue(variableQueue), To: in.To, Max: in.Max, Reason: in.Reason, Text: in.Text, DryRun: in.DryRun,
		Allow: func(to string) error { return by.may(access.Write, access.Topic, to) },
	}
	if req.After, err = messageID("after", in.After); err != nil {
		return err
	}
	memory, err := a.fetch.Reserve(messagesBytes)
	if err != nil {
		return err
	}
	defer memory.Release()
	done, err := q.Redrive(ctx, req)
	if err != nil {
		return err
	}
	out := api.Redriven{Moved: done.Moved, Skipped: done.Skipped}
	if done.Next != nil {
		out.Next = done.Next.String()
	}
	return a.writeState(w, http.StatusOK, &out)
}

// messageID reads the ID of a message in a parameter or a member; nil if it is "".
func messageID(name, text string) (*queue.ID, error) {
	if text == "" {
		return nil, nil
	}
	id, err := queue.ParseID(text)
	if invalid, ok := errors.AsType[*state.InvalidError](err); ok {
		return nil, problem.BadField(name, "%s", invalid.Reason)
	}
	return &id, err
}

// span reads a time such as 90s or 1d in a parameter or a member; 0 if it is "".
func span(name, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := state.Span(text)
	if err != nil {
		return 0, problem.BadField(name, "%v", err)
	}
	return d, nil
}
