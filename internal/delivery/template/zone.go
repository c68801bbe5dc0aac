package template

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // zones for machines without their own
)

const zoneNameMax = 64

// Zone is a time zone of the IANA database, such as "Europe/Berlin" or "UTC". The machine's local
// zone is refused.
func Zone(name string) (*time.Location, error) {
	if name == "" || len(name) > zoneNameMax || strings.EqualFold(name, "local") {
		return nil, fmt.Errorf("invalid time zone %.*q, want a name such as Europe/Berlin or UTC", zoneNameMax, name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("unknown time zone %q, want one of the IANA database", name)
	}
	return zone, nil
}
