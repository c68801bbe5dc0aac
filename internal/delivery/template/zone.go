package template

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // zones are there on a machine that has none of its own, too
)

const zoneNameMax = 64

// Zone is a time zone by its name in the IANA database, such as "Europe/Berlin" or "UTC". What a machine gives a meaning to,
// and not the database, is refused.
func Zone(name string) (*time.Location, error) {
	if name == "" || len(name) > zoneNameMax || strings.EqualFold(name, "local") {
		return nil, fmt.Errorf("%.*q, want a name such as Europe/Berlin or UTC", zoneNameMax, name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%q is no time zone of the IANA database", name)
	}
	return zone, nil
}
