package httpapi

import (
	"encoding/base64"
	"errors"
	"net/http"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/record"
)

// schedulePath is the path of a schedule.
const (
	schedulePath     = "/queues/{queue}/schedules/{schedule}"
	variableSchedule = "schedule"
)

// ParamDryRun asks what a request would do.
const ParamDryRun = "dry-run"

const (
	// scheduleBodyMax bounds the body of PUT /queues/{queue}/schedules/{schedule}: text in JSON can take six
	// times its bytes.
	scheduleBodyMax = 6 * 64 << 10
	// scheduleBytes bounds the memory of a schedule in an answer, with its stored form.
	scheduleBytes = 512 << 10
	// scheduleTimes is how many times an answer has.
	scheduleTimes = 5
)

func (a *API) getSchedules(w http.ResponseWriter, r *http.Request, _ *caller) error {
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
	of := r.PathValue(variableQueue)
	names, err := q.Schedules(of)
	if err != nil {
		return err
	}
	a.readHeaders(w)
	l := a.newList(w, "schedules", page.most)
	for _, name := range names {
		if !page.has(name) {
			continue
		}
		err := l.add(r.Context(), name, scheduleBytes, func() (any, error) {
			s, err := q.Schedule(of, name)
			if errors.Is(err, queue.ErrUnknownSchedule) {
				return nil, nil
			}
			return scheduleOf(&s), err
		})
		if err != nil {
			return l.end(err)
		}
	}
	return l.end(nil)
}

func (a *API) getSchedule(w http.ResponseWriter, r *http.Request, _ *caller) error {
	q, err := a.queues()
	if err != nil {
		return err
	}
	memory, err := a.small(scheduleBytes)
	if err != nil {
		return err
	}
	defer memory.Release()
	s, err := q.Schedule(r.PathValue(variableQueue), r.PathValue(variableSchedule))
	if err != nil {
		return err
	}
	return a.writeState(w, http.StatusOK, scheduleOf(&s))
}

// scheduleOf returns a schedule as in answers.
func scheduleOf(s *queue.Schedule) *api.Schedule {
	out := &api.Schedule{
		Name: s.Name, ScheduleSpec: api.ScheduleSpec{Cron: s.Cron, Zone: s.Zone, Missed: s.Missed, Priority: s.Priority},
		Next: append([]time.Time{}, s.Times(scheduleTimes)...),
	}
	out.Key, out.KeyBase64 = keyText(s.Key)
	out.Value, out.ValueBase64 = keyText(s.Value)
	for i := range s.Headers {
		h := api.Header{Key: s.Headers[i].Key}
		h.Value, h.ValueBase64 = keyText(s.Headers[i].Value)
		out.Headers = append(out.Headers, h)
	}
	return out
}

// putSchedule makes or replaces a schedule. It sends its messages with the rights of the broker, so that the
// client needs the right to send, too.
func (a *API) putSchedule(w http.ResponseWriter, r *http.Request, by *caller) error {
	params := httpconn.ParseParams(r.URL.RawQuery)
	dry := params.Bool(ParamDryRun)
	if params.Fault != nil {
		return params.Fault
	}
	q, ctx, cancel, err := a.changingQueue(r, by, access.AlterConfigs)
	if err != nil {
		return err
	}
	defer cancel()
	var in api.ScheduleSpec
	body, err := a.decodeIf(w, r, scheduleBodyMax, &in)
	if err != nil {
		return err
	}
	defer body.Release()
	memory, err := a.small(scheduleBytes)
	if err != nil {
		return err
	}
	defer memory.Release()
	s, err := readSchedule(&in)
	if err != nil {
		return err
	}
	of := r.PathValue(variableQueue)
	if s.Name = r.PathValue(variableSchedule); dry {
		s, err = q.CheckSchedule(of, s)
	} else {
		s, err = q.SetSchedule(ctx, of, s)
	}
	if err != nil {
		return err
	}
	return a.writeState(w, http.StatusOK, scheduleOf(&s))
}

// readSchedule returns a schedule without its name.
func readSchedule(in *api.ScheduleSpec) (s queue.Schedule, err error) {
	s = queue.Schedule{Cron: in.Cron, Zone: in.Zone, Missed: in.Missed, Priority: in.Priority}
	if s.Key, err = givenBytes("key", in.Key, in.KeyBase64); err != nil {
		return s, err
	}
	if s.Value, err = givenBytes("value", in.Value, in.ValueBase64); err != nil {
		return s, err
	}
	for i := range in.Headers {
		h := record.Header{Key: in.Headers[i].Key}
		if h.Value, err = givenBytes("headers", in.Headers[i].Value, in.Headers[i].ValueBase64); err != nil {
			return s, err
		}
		s.Headers = append(s.Headers, h)
	}
	return s, nil
}

// givenBytes returns the bytes of a member that is a text or in base64; nil: it is neither.
func givenBytes(field string, text, encoded *string) ([]byte, error) {
	switch {
	case text != nil && encoded != nil:
		return nil, problem.BadField(field, "given as text and in base64")
	case text != nil:
		return []byte(*text), nil
	case encoded == nil:
		return nil, nil
	}
	b, err := base64.StdEncoding.DecodeString(*encoded)
	if err != nil {
		return nil, problem.BadField(field, "not in base64")
	}
	return b, nil
}

func (a *API) deleteSchedule(w http.ResponseWriter, r *http.Request, by *caller) error {
	q, ctx, cancel, err := a.changingQueue(r, by, access.AlterConfigs)
	if err != nil {
		return err
	}
	defer cancel()
	if err := q.DeleteSchedule(ctx, r.PathValue(variableQueue), r.PathValue(variableSchedule)); err != nil {
		return err
	}
	return a.changed(w)
}
