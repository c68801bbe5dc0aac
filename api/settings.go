package api

// Setting describes a setting of topics. It has Choices, or it is a size or a time with bounds.
type Setting struct {
	Name    string `json:"name"`
	Default string `json:"default"`
	// DefaultCompacted is the default for topics with compaction, if it differs.
	DefaultCompacted string   `json:"default_compacted,omitempty"`
	Choices          []string `json:"choices,omitempty"`
	// Unit is bytes, with a suffix like 16MiB, or time, such as 90s or 7d.
	Unit      string `json:"unit,omitempty"`
	Min       string `json:"min,omitempty"`
	Max       string `json:"max,omitempty"`
	Unlimited bool   `json:"unlimited,omitempty"` // also accepts unlimited
	Meaning   string `json:"meaning"`
}

// Settings is the answer to GET /settings.
type Settings struct {
	Settings []Setting `json:"settings"`
}
