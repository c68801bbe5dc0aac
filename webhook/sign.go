package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Headers of Standard Webhooks.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

const (
	// SecretsMax bounds the secrets that sign or verify a message at the same time. A rotation
	// needs two; more allow overlapping rotations.
	SecretsMax = 8
	// IDBytesMax bounds the length of a message's ID.
	IDBytesMax = 256

	signatureVersion = "v1"
	signaturePrefix  = signatureVersion + ","
)

// Sign writes the three headers of a message into h: id, the second of at, and a signature for each
// secret. At least one secret is required. An id is printable ASCII without spaces and full stops,
// because a full stop follows it in the signed text. On an error h is unchanged.
func Sign(h http.Header, id string, at time.Time, body []byte, secrets ...Secret) error {
	if err := checkID(id); err != nil {
		return err
	}
	if err := checkSecrets(secrets); err != nil {
		return err
	}
	if at.Unix() < 0 {
		return errors.New("webhook timestamp: before 1970")
	}
	seconds := strconv.FormatInt(at.Unix(), 10)
	signatures := make([]string, len(secrets))
	for i, s := range secrets {
		signatures[i] = signaturePrefix + base64.StdEncoding.EncodeToString(s.sum(id, seconds, body))
	}
	h.Set(HeaderID, id)
	h.Set(HeaderTimestamp, seconds)
	h.Set(HeaderSignature, strings.Join(signatures, " "))
	return nil
}

// sum returns the HMAC-SHA256 of "id.seconds.body".
func (s Secret) sum(id, seconds string, body []byte) []byte {
	mac := hmac.New(sha256.New, s.key())
	mac.Write([]byte(id + "." + seconds + "."))
	mac.Write(body)
	return mac.Sum(nil)
}

func checkID(id string) error {
	if id == "" || len(id) > IDBytesMax {
		return fmt.Errorf("webhook id: %d bytes, want 1 to %d", len(id), IDBytesMax)
	}
	for i := range len(id) {
		if c := id[i]; c <= ' ' || c > '~' || c == '.' {
			return fmt.Errorf("webhook id: byte %d is %q, want printable ASCII without spaces and full stops", i, c)
		}
	}
	return nil
}

func checkSecrets(secrets []Secret) error {
	if len(secrets) == 0 || len(secrets) > SecretsMax {
		return fmt.Errorf("webhook secrets: %d given, want 1 to %d", len(secrets), SecretsMax)
	}
	for i, s := range secrets {
		if s.IsZero() {
			return fmt.Errorf("webhook secrets: number %d is empty", i+1)
		}
	}
	return nil
}

// Version is the version of the body in Firing. A receiver ignores unknown members. A change in the
// meaning of a member increases Version.
const Version = 1

// Types of messages.
const (
	TypeFired = "trigger.fired" // the expression became true for the entity
	// The expression is no longer true; sent for triggers with on_retract=notify.
	TypeRetracted = "trigger.retracted"
)

// Firing is the JSON body of a message of a trigger without a template.
type Firing struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"` // of the firing or retraction, UTC, milliseconds
	Version   int       `json:"version"`   // of this body: Version
	// ID identifies the firing. A retraction has the ID of its firing, and a webhook-id with the
	// suffix "-retracted".
	ID      string     `json:"id"`
	Attempt int        `json:"attempt"` // 1 for the first attempt of the message
	Data    FiringData `json:"data"`
}

// FiringData has the trigger, the entity and the matched events of a firing.
type FiringData struct {
	Trigger        string `json:"trigger"`
	TriggerVersion int    `json:"trigger_version"`
	Entity         string `json:"entity"`
	// the events that made the expression true, in log order
	Witness []Event `json:"witness"`
}

// Event is an event of the log.
type Event struct {
	Event  string          `json:"event"` // its name
	Time   time.Time       `json:"time"`  // append time, UTC, milliseconds
	Offset int64           `json:"offset"`
	Data   json.RawMessage `json:"data,omitempty"` // as posted; absent if the event has none
}
