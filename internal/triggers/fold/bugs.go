package fold

import (
	"strconv"

	"github.com/sebbroker/seb/internal/planted"
	"github.com/sebbroker/seb/internal/triggers/entry"
	"github.com/sebbroker/seb/internal/triggers/rule"
)

// plantedBug is a mistake that engines of this kind were shipped with, to be found by the simulator's invariants.
type plantedBug string

const (
	bugWallClock   plantedBug = "deadlines by the wall clock"
	bugBacklog     plantedBug = "deadlines before the backlog is read"
	bugMillisecond plantedBug = "an instant complete within its millisecond"
	bugBeforeRead  plantedBug = "delivered before it is read back"
	bugNoWait      plantedBug = "no wait for firings at a takeover"
	bugCounted     plantedBug = "ids of firings from a counter"
	bugBorder      plantedBug = "the border of a definition is the last record before it"
	bugGone        plantedBug = "a topic that was created again is not followed"
	bugSeen        plantedBug = "ids of events forgotten by one partition's clock"
)

func bug(b plantedBug) bool { return planted.On(string(b)) }

// PlantedBugs lists the names that package planted knows for the engine.
func PlantedBugs() []string {
	return []string{
		string(bugWallClock), string(bugBacklog), string(bugMillisecond), string(bugBeforeRead), string(bugNoWait), string(bugCounted),
		string(bugSeen), string(bugBorder), string(bugGone), rule.BugDeadlinesFirst,
	}
}

// counted gives a record an id that says nothing of its cause.
func (w *worker) counted(rec *entry.Record) {
	rec.Cause = "n:" + strconv.FormatInt(w.sent, 10) + ":" + strconv.Itoa(len(w.live))
	rec.ID = entry.MakeID(rec.Trigger, rec.Version, rec.Entity, rec.Cause).String()
}
