package rules

import (
	"fmt"
	"strings"

	"github.com/sebbroker/seb/internal/triggers/rules/explain"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
)

// Why says in words which event began the wait of an entity, what ended it or is missing, whether
// the trigger fired, and what would change that.
func (x *Explanation) Why(h *History) string {
	parts := h.words(x.Entity)
	if len(x.Firings) > 0 {
		parts = append(parts, firingText(&x.Firings[0]))
	}
	return strings.Join(append(parts, x.Waits), "; ")
}

// words says what the events of the entity did.
func (h *History) words(entity string) (parts []string) {
	switch h.Unread {
	case NotIndexed:
		return []string{"the events of the entity are unknown, because the topic has no key index"}
	case TooSlow:
		return []string{"the events of the entity were not evaluated, because that took too long"}
	case TopicMissing:
		return nil // the state says so
	case IndexBehind:
		parts = append(parts, "the key index is behind, so that the newest events may be missing here")
	case Trimmed:
		parts = append(parts, "older events were deleted from the topic, so that some may be missing here")
	case TooMany:
		parts = append(parts, fmt.Sprintf("only the newest %d events were read, since %s", h.Events, explain.Time(h.Since)))
	}
	partly := h.Unread == TooMany || h.Unread == Trimmed
	switch {
	case h.Events == 0 && h.Unread == ReadAll:
		parts = append(parts, fmt.Sprintf("there is no event of %q", entity))
	case h.Events == 0:
		parts = append(parts, fmt.Sprintf("no event of %q was found", entity))
	case h.last == nil && h.idle == nil && h.Unread == Trimmed:
		parts = append(parts, "the expression mentions none of the others")
	case h.last == nil && h.idle == nil && h.Unread == TooMany:
		parts = append(parts, "the expression mentions none of them")
	case h.last == nil && h.idle == nil:
		text := "no event so far matters: the expression does not mention its event"
		if h.Events > 1 {
			text = fmt.Sprintf("no event so far matters: the expression mentions none of its %d events", h.Events)
		}
		parts = append(parts, text)
	case h.last == nil && !partly:
		parts = append(parts, "no event so far matters", h.idle.Text())
	case h.last == nil:
		parts = append(parts, h.idle.Text())
	default:
		if h.first.Moment != h.last.Moment {
			parts = append(parts, h.first.Text())
		}
		parts = append(parts, h.last.Text())
		if h.idle != nil && h.idle.At >= h.last.At && h.idle.Skip != explain.Counted {
			parts = append(parts, h.idle.Text())
		}
	}
	return parts
}

// Text describes the step in words.
func (s *Step) Text() string {
	if s.Name == "" {
		return strings.Replace(s.Words(), "makes it true", "it becomes true", 1)
	}
	return fmt.Sprintf("%s at %s %s", s.Name, explain.Time(s.At), s.Words())
}

// firingText describes the newest firing.
func firingText(x *Firing) string {
	text := "it fired for " + explain.Time(x.At)
	switch x.State {
	case rule.Historic:
		return text + ", which was before the trigger existed: no message"
	case rule.Suppressed:
		return text + ", in the cooldown or while the trigger was paused: no message"
	case rule.Carried:
		return text + ", after an earlier version had fired: no message"
	case rule.Dead:
		return text + ", and the message was given up after its last attempt"
	case rule.Delivered:
		return text + ", and the message was delivered"
	case rule.Retracted:
		return text + ", and retracted that before the message was sent"
	}
	return text + ", and the message is to be delivered"
}
