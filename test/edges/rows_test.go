package edges_test

// repeatedMembers: encoding/json would let the last of two win, and ignore the case of names.
var repeatedMembers = []row{
	{"a repeated member", `{"value":"a","value":"b"}`, ndjson, "refused: value: given twice"},
	{"a repeated member", `{"value":"a","value":"b"}`, object, "refused: value: given twice"},
	{"a repeated member", `{"value":"a","value":"b"}`, raw, `"{\"value\":\"a\",\"value\":\"b\"}"`},
	{"other capitals", `{"Value":"a"}`, ndjson, "refused: unknown member of a record"},
	{"other capitals", `{"Value":"a"}`, object, "refused: unknown member of a record"},
	{"half of a surrogate pair", `{"value":"\ud800"}`, ndjson, "refused: half of a surrogate pair"},
	{"invalid UTF-8", "{\"value\":\"\xff\"}", ndjson, "refused: not valid UTF-8"},
	{"a repeated member", `{"event":"e","event":"f","entity_id":"1"}`, events, "refused: event: given twice"},
	{"a repeated member", `{"event":"e","event":"f","entity_id":"1"}`, event, "refused: event: given twice"},
	{"other capitals", `{"Event":"e","entity_id":"1"}`, events, "refused: unknown member"},
	{"other capitals", `{"Event":"e","entity_id":"1"}`, event, "refused: unknown member"},
	{
		"repeated data", `{"event":"e","entity_id":"1","data":{"x":1,"x":"\ud800"}}`, events,
		`"{\"event\":\"e\",\"entity_id\":\"1\",\"data\":{\"x\":1,\"x\":\"\\ud800\"}}"`,
	},
	{
		"repeated data", `{"event":"e","entity_id":"1","data":{"x":1,"x":"\ud800"}}`, event,
		`"{\"event\":\"e\",\"entity_id\":\"1\",\"data\":{\"x\":1,\"x\":\"\\ud800\"}}"`,
	},
	{"a trigger", `{"expr":"a THEN b"}`, triggerJSON, ""},
	{"a trigger", "expr: a THEN b\n", triggerYAML, ""},
	{"a repeated member", `{"expr":"a","expr":"b"}`, triggerJSON, "refused: expr: given twice"},
	{"a repeated member", "expr: a\nexpr: b\n", triggerYAML, `refused: "expr" already defined`},
	{"a repeated member", `{"expr":"a","deliver":{"topic":"x","topic":"y"}}`, triggerJSON, "refused: topic: given twice"},
	{"a repeated member", "expr: a\ndeliver: {topic: x, topic: y}\n", triggerYAML, `refused: "topic" already defined`},
	{"other capitals", `{"Expr":"a"}`, triggerJSON, "refused: Expr: unknown member; want expr"},
	{"other capitals", "Expr: a\n", triggerYAML, "refused: Expr: unknown member; want expr"},
	{"other capitals", `{"expr":"a","deliver":{"Topic":"x"}}`, triggerJSON, "refused: Topic: unknown member; want topic"},
	{"other capitals", "expr: a\ndeliver: {Topic: x}\n", triggerYAML, "refused: Topic: unknown member; want topic"},
	{"two values", `{"expr":"a"}{}`, triggerJSON, "refused: more than one JSON value"},
	{"two values", "expr: a\n---\nexpr: b\n", triggerYAML, "refused: more than one document"},
	{"half of a surrogate pair", `{"expr":"\ud800"}`, triggerJSON, "refused: half of a surrogate pair"},
	{"invalid UTF-8", "{\"expr\":\"\xff\"}", triggerJSON, "refused: not valid UTF-8"},
	{"invalid UTF-8", "expr: \xff\n", triggerYAML, "refused: not valid UTF-8"},
	{"a repeated member", `{"preset":"viewer","preset":"operator"}`, tokenJSON, "refused: preset: given twice"},
	{"other capitals", `{"preset":"viewer","Preset":"operator"}`, tokenJSON, "refused: Preset: unknown member; want preset"},
	{"a repeated member", `{"offset":0,"offset":1}`, offsetJSON, "refused: offset: given twice"},
	{"other capitals", `{"OFFSET":0}`, offsetJSON, "refused: OFFSET: unknown member; want offset"},
	{"an expression", `{"then":[{"event":"a"},{"event":"b"}]}`, exprJSON, ""},
	{"a repeated member", `{"then":[{"event":"a","event":"b"},{"event":"b"}]}`, exprJSON, "refused: event"},
	{"half of a surrogate pair", `{"event":"\ud800"}`, exprJSON, "refused: half of a surrogate pair"},
	{"other capitals", `{"Event":"a"}`, exprJSON, "refused: "},
}

const (
	bom   = "\ufeff"
	utf16 = "\xff\xfe{\x00\n\x00"
	e1    = `{"event":"e","entity_id":"1"}`
	e1Is  = `"{\"event\":\"e\",\"entity_id\":\"1\"}"`
)

// encodings: blank lines, ends of lines, byte order marks and other encodings.
var encodings = []row{
	{"CRLF and a blank line", "a\r\n\r\nb", lines, `"a"|""|"b"`},
	{"CRLF and a blank line", "a\r\n\r\nb", raw, `"a\r\n\r\nb"`},
	{"a line feed at the end", "a\nb\n", lines, `"a"|"b"`},
	{"a byte order mark", bom + "a\nb", lines, `"\ufeffa"|"b"`},
	{"a byte order mark", bom + "a\nb", raw, `"\ufeffa\nb"`},
	{"NUL", "a\x00\n\x00", lines, `"a\x00"|"\x00"`},
	{"UTF-16", utf16, lines, "refused: UTF-16"},
	{"UTF-16", utf16, raw, `"\xff\xfe{\x00\n\x00"`},

	{"blank lines", "\n{\"value\":\"a\"}\n \t\n\r\n{\"value\":\"b\"}\r\n\n", ndjson, `"a"|"b"`},
	{"no line feed at the end", `{"value":"a"}`, ndjson, `"a"`},
	{"a byte order mark", bom + `{"value":"a"}`, ndjson, `"a"`},
	{"a byte order mark", bom + `{"value":"a"}`, object, `"a"`},
	{"a byte order mark inside", "{\"value\":\"a\"}\n" + bom + `{"value":"b"}`, ndjson, "refused: JSON: want"},
	{"UTF-16", utf16, ndjson, "refused: UTF-16"},
	{"UTF-16", utf16, object, "refused: UTF-16"},
	{"NUL", "{\"value\":\"a\"}\x00", ndjson, "refused: JSON: want"},

	{"blank lines", "\n" + e1 + "\n \t\n\r\n" + e1 + "\r\n\n", events, e1Is + "|" + e1Is},
	{"a byte order mark", bom + e1, events, e1Is},
	{"a byte order mark", bom + e1, event, e1Is},
	{"UTF-16", utf16, events, "refused: UTF-16"},
	{"UTF-16", utf16, event, "refused: UTF-16"},
	{"NUL", e1 + "\x00", events, "refused: "},

	{"a byte order mark", bom + `{"expr":"a"}`, triggerJSON, ""},
	{"a byte order mark", bom + "expr: a\r\n", triggerYAML, ""},
	{"a byte order mark", bom + "a THEN b\r\n", expressions, ""},
	{"UTF-16", utf16, triggerJSON, "refused: UTF-16"},
	{"UTF-16", utf16, triggerYAML, "refused: UTF-16"},
	{"UTF-16", utf16, expressions, "refused: UTF-16"},
	{"UTF-16", utf16, tokenJSON, "refused: UTF-16"},
}

func at(time string) string { return `{"event":"e","entity_id":"1","occurred_at":"` + time + `"}` }

func stamped(time string) string { return `{"value":"a","timestamp":"` + time + `"}` }

// times: RFC 3339 exactly. An event is not lost by a time that triggers ignore.
var times = []row{
	{"a leap second", stamped("2016-12-31T23:59:60Z"), ndjson, `"a"`},
	{"lower case", stamped("2026-03-01t12:00:00z"), ndjson, `"a"`},
	{"a comma", stamped("2026-03-01T12:00:00,5Z"), ndjson, "refused: timestamp: want"},
	{"an offset of a day", stamped("2026-03-01T12:00:00+24:00"), ndjson, "refused: timestamp: want"},
	{"a comma", at("2026-03-01T12:00:00,5Z"), events, "refused: occurred_at: want RFC 3339"},
	{"an offset of a day", at("2026-03-01T12:00:00+24:00"), events, "refused: occurred_at: want RFC 3339"},
	{"a comma", at("2026-03-01T12:00:00,5Z"), event, "refused: occurred_at: want RFC 3339"},
	{"a leap second", at("2016-12-31T23:59:60Z"), event, `"{\"event\":\"e\",\"entity_id\":\"1\",\"occurred_at\":\"2016-12-31T23:59:60Z\"}"`},
	{"lower case", at("2026-03-01t12:00:00z"), event, `"{\"event\":\"e\",\"entity_id\":\"1\",\"occurred_at\":\"2026-03-01t12:00:00z\"}"`},
	// The Go client, and so seb, writes the instant in its own form.
	{"a leap second", at("2016-12-31T23:59:60Z"), eventFile, `"{\"event\":\"e\",\"entity_id\":\"1\",\"occurred_at\":\"2017-01-01T00:00:00Z\"}"`},
	{"lower case", at("2026-03-01t12:00:00z"), eventFile, `"{\"event\":\"e\",\"entity_id\":\"1\",\"occurred_at\":\"2026-03-01T12:00:00Z\"}"`},
	{"a leap second", "2016-12-31T23:59:60Z", eventFlag, `"{\"event\":\"e\",\"entity_id\":\"1\",\"occurred_at\":\"2017-01-01T00:00:00Z\"}"`},
	{"a comma", "2026-03-01T12:00:00,5Z", eventFlag, "refused: --occurred-at"},
	{"an offset of a day", "2026-03-01T12:00:00+24:00", eventFlag, "refused: --occurred-at"},
	{"a comma", `{"expires_at":"2036-03-01T12:00:00,5Z"}`, tokenJSON, "refused: expires_at: want RFC 3339"},
	{"an offset of a day", `{"expires_at":"2036-03-01T12:00:00+24:00"}`, tokenJSON, "refused: expires_at: want RFC 3339"},
	{"lower case", `{"expires_at":"2036-03-01t12:00:00z"}`, tokenJSON, ""},
	{"a comma", "2026-03-01T12:00:00,5Z", instants, "refused: want"},
	{"an offset of a day", "2026-03-01T12:00:00+24:00", instants, "refused: want"},
	{"a leap second", "2016-12-31T23:59:60Z", instants, ""},
	{"lower case", "2026-03-01t12:00:00z", instants, ""},
}
