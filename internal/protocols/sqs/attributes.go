package sqs

import (
	"crypto/md5" //nolint:gosec // clients compare it
	"encoding/binary"
	"encoding/hex"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/record"
)

// Attributes of messages are headers: their name and their value. Names that begin with AWS. are reserved at
// AWS, so these headers have what else belongs to a message:
const (
	headerReserved = "AWS."
	headerType     = headerReserved + "Type." // and a name: its type, if that is not String
	headerTrace    = headerReserved + "AWSTraceHeader"
	headerSender   = headerReserved + "SenderId"
	headerDedup    = headerReserved + "MessageDeduplicationId"

	traceHeader   = "AWSTraceHeader"
	typeString    = "String"
	typeBinary    = "Binary"
	attributesMax = 10
)

var (
	nameText  = regexp.MustCompile(`^[a-zA-Z0-9_\-.\x{00c0}-\x{017f}]+$`)
	groupText = regexp.MustCompile("^[0-9a-zA-Z!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]{1,128}$")
)

func isBinary(kind string) bool { return kind == typeBinary || strings.HasPrefix(kind, typeBinary+".") }

// checkAttribute checks an attribute of a message.
func checkAttribute(name string, v *value) error {
	lower := strings.ToLower(name)
	switch {
	case len(name) == 0 || len(name) > 256:
		return errValue("Message (user) attribute names must be shorter than 256 Bytes")
	case !nameText.MatchString(name):
		return errValue("Message (user) attributes name can only contain upper and lower score characters, digits, periods, hyphens and underscores. ")
	case strings.HasPrefix(lower, "aws.") || strings.HasPrefix(lower, "amazon.") || name[0] == '.' || name[len(name)-1] == '.':
		return errValue("You can't use message attribute names beginning with 'AWS.' or 'Amazon.'. These strings are reserved for internal use. Additionally, they cannot start or end with '.'.")
	case strings.HasPrefix(name, queue.HeaderPrefix):
		return errValue("You can't use message attribute names beginning with '%s': those of Seb do.", queue.HeaderPrefix)
	case v.DataType == "":
		return errValue("The message attribute '%s' must contain non-empty message attribute type.", name)
	case len(v.DataType) > 256:
		return errValue("Message (user) attribute types must be shorter than 256 Bytes")
	}
	base, _, _ := strings.Cut(v.DataType, ".")
	switch base {
	case typeBinary:
		if len(v.BinaryValue) == 0 {
			return errValue("Message (user) attribute '%s' must contain a non-empty value of type '%s'.", name, "Binary")
		}
		return nil
	case typeString, "Number":
		if v.StringValue == nil || *v.StringValue == "" {
			return errValue("Message (user) attribute '%s' must contain a non-empty value of type '%s'.", name, "String")
		}
		if !validText(*v.StringValue) {
			return errValue("%s", errCharacters.Message)
		}
		if base == "Number" && !numberText.MatchString(*v.StringValue) {
			return errValue("Can't cast the value of message (user) attribute '%s' to a number.", name)
		}
		return nil
	}
	return errValue("The type of message (user) attribute '%s' is invalid. You must use only the following supported type prefixes: Binary, Number, String.", name)
}

var numberText = regexp.MustCompile(`^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$`)

// bytes are those of a value.
func (v *value) bytes() []byte {
	if isBinary(v.DataType) || v.StringValue == nil {
		return v.BinaryValue
	}
	return []byte(*v.StringValue)
}

// headersOf returns attributes as headers, and their size as AWS counts it.
func headersOf(attrs map[string]value) (list []record.Header, size int, err error) {
	if len(attrs) > attributesMax {
		return nil, 0, errValue("Number of message attributes [%d] exceeds the allowed maximum [%d].", len(attrs), attributesMax)
	}
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		v := attrs[name]
		if err := checkAttribute(name, &v); err != nil {
			return nil, 0, err
		}
		b := v.bytes()
		size += len(name) + len(v.DataType) + len(b)
		list = append(list, record.Header{Key: name, Value: b})
		if v.DataType != typeString {
			list = append(list, record.Header{Key: headerType + name, Value: []byte(v.DataType)})
		}
	}
	return list, size, nil
}

// attributesOf returns the attributes in headers, and those of AWS by the rest of their name. Headers of Seb
// are none.
func attributesOf(headers []record.Header) (attrs map[string]value, system map[string]string) {
	attrs, system = map[string]value{}, map[string]string{}
	for i := range headers {
		h := &headers[i]
		switch name, ours := strings.CutPrefix(h.Key, headerReserved); {
		case ours:
			system[name] = string(h.Value)
		case strings.HasPrefix(h.Key, queue.HeaderPrefix):
		case utf8.Valid(h.Value):
			attrs[h.Key] = value{DataType: typeString, StringValue: new(string(h.Value))}
		default:
			attrs[h.Key] = value{DataType: typeBinary, BinaryValue: h.Value}
		}
	}
	for name, v := range attrs { //tidy:unordered each has its own type
		kind := system[strings.TrimPrefix(headerType, headerReserved)+name]
		switch {
		case kind == "":
		case isBinary(kind) && v.StringValue != nil:
			attrs[name] = value{DataType: kind, BinaryValue: []byte(*v.StringValue)}
		default:
			v.DataType = kind
			attrs[name] = v
		}
	}
	return attrs, system
}

// digest is the MD5 of a text.
func digest(b []byte) string {
	sum := md5.Sum(b) //nolint:gosec // clients compare it
	return hex.EncodeToString(sum[:])
}

// digestOf is the MD5 of attributes; "" without any. Each has its name, its type, whether it is binary, and
// its value, each with its length (SQS developer guide, message metadata).
func digestOf(attrs map[string]value) string {
	if len(attrs) == 0 {
		return ""
	}
	var b []byte
	part := func(text []byte) {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(text))), text...)
	}
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		v := attrs[name]
		part([]byte(name))
		part([]byte(v.DataType))
		if isBinary(v.DataType) {
			b = append(b, 2)
		} else {
			b = append(b, 1)
		}
		part(v.bytes())
	}
	return digest(b)
}

// wanted reports whether a receiver asks for an attribute: by name, by a prefix and .*, or for all.
func wanted(names []string, name string) bool {
	for _, n := range names {
		prefix, all := strings.CutSuffix(n, ".*")
		if n == "All" || n == "*" || n == name || all && (prefix == "" || strings.HasPrefix(name, prefix)) {
			return true
		}
	}
	return false
}

var errCharacters = refuse("InvalidMessageContents", "Invalid characters found. Valid unicode characters are "+
	"#x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF")

// validText reports whether XML can have all characters of a text.
func validText(text string) bool {
	if !utf8.ValidString(text) {
		return false
	}
	for _, r := range text {
		if r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
			return false
		}
	}
	return true
}
