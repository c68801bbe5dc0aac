package httpapi

import (
	"fmt"
	"net/http"
	"time"

	"github.com/sebbroker/seb/api"
)

const (
	// memoryWarning is the part of the memory limit above which GET /status warns.
	memoryWarning = 0.9
	// triggerLagWarning is the lag of triggers above which it warns.
	triggerLagWarning = time.Minute
)

// getStatus answers what an operator looks at first. It makes no request to the store.
func (a *API) getStatus(w http.ResponseWriter, _ *http.Request) error {
	b := a.b.Status()
	s := api.Status{
		Version: a.o.Version, Started: a.o.Started, Role: b.Role, Epoch: b.Epoch, FormatLevel: a.b.Level().Now, Topics: b.Topics,
		Store: api.StoreStatus{Name: a.o.Store, Puts: len(b.PutTimes)}, Memory: api.MemoryStatus{Limit: a.b.Budget().Limit()},
	}
	if n := len(b.PutTimes); n > 0 {
		s.Store.MedianMillis = float64(b.PutTimes[n/2].Microseconds()) / 1000
		s.Store.P99Millis = float64(b.PutTimes[n*99/100].Microseconds()) / 1000
	}
	warn := func(format string, args ...any) { s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...)) }
	if err := a.ready(); err == nil {
		s.Ready = true
	} else {
		s.Reason = err.Error()
	}
	if err := a.b.StoreFault(); err != nil {
		warn("last request to the store failed: %v", err)
	}
	if b.Alarms > 0 {
		warn("log alarms: %d; run seb fsck", b.Alarms)
	}
	for _, u := range a.b.Budget().Usage() {
		s.Memory.Reserved += u.Used
	}
	if float64(s.Memory.Reserved) > memoryWarning*float64(s.Memory.Limit) {
		warn("%d of %d bytes of memory are reserved; raise --memory-limit", s.Memory.Reserved, s.Memory.Limit)
	}
	held, most := a.b.StateMemory()
	s.Memory.State, s.Memory.StateMax = held.Sum(), most
	if err := a.b.StateFull(); err != nil {
		warn("%v", err)
	}
	if lags, _ := a.b.GroupLags(1); len(lags) > 0 && lags[0].Records > 0 {
		s.Lag.Group = &api.GroupLag{Group: lags[0].Group, Topic: lags[0].Topic, Records: lags[0].Records}
	}
	if e := a.o.Triggers; e != nil {
		lag := e.LagTime()
		s.Lag.TriggerRecords, s.Lag.TriggerSeconds = e.Lag(), lag.Seconds()
		if lag > triggerLagWarning {
			warn("triggers are %v behind", lag.Round(time.Second))
		}
	}
	if a.o.Warnings != nil {
		s.Warnings = append(s.Warnings, a.o.Warnings()...)
	}
	return a.writeJSON(w, http.StatusOK, s)
}
