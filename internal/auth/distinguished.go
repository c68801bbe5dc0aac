package auth

import (
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// attributeSET is a part of a name: usually one attribute. The suffix of the type's name means a SET
// to package asn1.
type attributeSET []struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

// keywords are the attributes that RFC 2253 names. The others are numbers.
var keywords = map[string]string{
	"2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "STREET", "2.5.4.10": "O", "2.5.4.11": "OU",
	"0.9.2342.19200300.100.1.1": "UID", "0.9.2342.19200300.100.1.25": "DC",
}

// nameOfCertificate returns the name of a certificate's subject as RFC 2253 writes it, the last part
// first: CN=shop,OU=services,O=Example. It is the text of Java's X500Principal.getName, to which
// Kafka applies its rules.
func nameOfCertificate(cert *x509.Certificate) (string, error) {
	var name []attributeSET
	if rest, err := asn1.Unmarshal(cert.RawSubject, &name); err != nil || len(rest) > 0 {
		return "", errors.New("subject is malformed")
	}
	var b strings.Builder
	for i, part := range slices.Backward(name) {
		if i < len(name)-1 {
			b.WriteByte(',')
		}
		for j, a := range part {
			if j > 0 {
				b.WriteByte('+')
			}
			keyword, value := keywords[a.Type.String()], ""
			text, isText := textOf(&a.Value)
			if keyword != "" && isText {
				value = escaped(text)
			} else {
				value = fmt.Sprintf("#%x", a.Value.FullBytes)
			}
			if keyword == "" {
				keyword = a.Type.String()
			}
			b.WriteString(keyword + "=" + value)
		}
	}
	return b.String(), nil
}

// textOf returns the text of a value, if it is of a type for texts. The rare types of other encodings
// count as bytes.
func textOf(v *asn1.RawValue) (string, bool) {
	switch v.Tag {
	case asn1.TagUTF8String, asn1.TagPrintableString, asn1.TagIA5String, asn1.TagGeneralString, asn1.TagT61String:
		return string(v.Bytes), utf8.Valid(v.Bytes)
	}
	return "", false
}

// escaped writes a backslash before special characters, and before spaces at both ends.
func escaped(text string) string {
	inner := strings.Trim(text, " \r")
	lead := len(text) - len(strings.TrimLeft(text, " \r"))
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case c == 0:
			b.WriteString(`\00`)
			continue
		case strings.IndexByte(`,=+<>#;"\`, c) >= 0, i < lead, i >= lead+len(inner):
			b.WriteByte('\\')
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
