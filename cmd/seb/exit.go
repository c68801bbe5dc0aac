package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/config"
	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/spf13/cobra"
)

// The exit codes; newExitCodes documents them.
const (
	exitOK      = 0
	exitError   = 1
	exitUsage   = 2
	exitFenced  = 3
	exitStore   = 4
	exitCorrupt = 5
	exitUnknown = 6
	exitStopped = 130
)

func newExitCodes() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "Describe the exit codes",
		Long: `0  success; for serve: stopped as requested, everything acknowledged is stored
1  an error; the line on stderr says what to do. Also: the store does not answer, or an fsync failed: start again
2  the command line or a setting is invalid, or the bucket needs a newer Seb
3  serve: another broker has taken over this bucket
4  serve, check-store: the store fails a check that Seb requires, or denies access
5  stored data is corrupt, or a part of the log is missing: nothing was deleted or skipped
6  produce, event, topic, trigger: no answer in time: the data may appear once, or never
130  interrupted (not serve and consume --follow, for which an interrupt is the normal end)

The first three are those that shells and service managers expect. A service manager should restart serve after 1. It must not
restart after 2 to 5, which need an operator (systemd: Restart=on-failure, RestartPreventExitStatus=2 3 4 5).`,
	}
}

// usageError is an error in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func exitCode(err error) int {
	var usage usageError
	var faults config.Faults
	var check *objstore.CheckError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage), errors.As(err, &faults), errors.Is(err, state.ErrNewer):
		return exitUsage
	case errors.Is(err, broker.ErrFenced):
		return exitFenced
	case errors.Is(err, objstore.ErrBroken), errors.As(err, &check) && errors.Is(err, objstore.ErrNoVerdict):
		return exitError // a restart may succeed
	case errors.As(err, &check), errors.Is(err, objstore.ErrRefused) && !errors.Is(err, objstore.ErrDamaged):
		return exitStore
	case errors.Is(err, objstore.ErrDamaged), errors.Is(err, core.ErrForeignBucket), errors.Is(err, broker.ErrCorrupt), errors.Is(err, record.ErrCorrupt), errors.Is(err, client.ErrCorrupt):
		return exitCorrupt
	case errors.Is(err, client.ErrOutcomeUnknown), errors.Is(err, broker.ErrOutcomeUnknown):
		return exitUnknown
	case errors.Is(err, context.Canceled):
		return exitStopped
	}
	return exitError
}

// oneLine formats an error for a person: one line with the cause and, if known, a hint.
func oneLine(err error) string {
	if newer, ok := errors.AsType[*state.NewerError](err); ok {
		return newer.Error() // the context of the error does not matter
	}
	text := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	if h := hint(err); h != "" {
		text += ": " + h
	}
	return text
}

// forPeople is oneLine, or a list if several settings are invalid.
func forPeople(err error) string {
	var faults config.Faults
	if !errors.As(err, &faults) || len(faults) < 2 {
		return oneLine(err)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d settings are invalid (see `seb help`)", len(faults))
	for _, f := range faults {
		text.WriteString("\n  " + f.Error())
	}
	return text.String()
}

// hint returns the action that resolves an error; "" if it is unknown.
func hint(err error) string {
	var usage usageError
	switch {
	case errors.As(err, &usage):
		return "see `seb help`"
	case errors.Is(err, client.ErrUnauthorized):
		return "set the broker's key with --api-key or $SEB_API_KEY"
	case errors.Is(err, client.ErrUnknownTopic):
		return "`seb topic list` lists the topics, `seb topic create` creates one"
	case errors.Is(err, client.ErrUnknownGroup):
		return "`seb group list` lists the groups; a group exists once it has committed an offset"
	case errors.Is(err, client.ErrKeyNotFound):
		return "`seb key list` lists the keys with a value"
	case errors.Is(err, client.ErrKeyIndexBehind):
		return "retry, or increase --wait"
	case errors.Is(err, client.ErrBelowStart):
		return "these records were removed; start with --offset earliest, or move the group with `seb group reset`"
	case errors.Is(err, objstore.ErrNoVerdict):
		return "the store did not answer; check the endpoint in --bucket, the network and the credentials"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "no broker answers at this address; start one with `seb serve`, or set another address with --address"
	case errors.Is(err, syscall.EADDRINUSE):
		return "another program uses this address; choose another port"
	case errors.Is(err, broker.ErrFenced):
		return "only one broker can write to a bucket; stop this one, or start it with --read-only"
	case errors.Is(err, client.ErrOutcomeUnknown):
		return "read the end of the topic before sending again"
	case errors.Is(err, fs.ErrPermission):
		return "check the permissions of this user"
	case errors.Is(err, context.DeadlineExceeded):
		return "the broker did not answer in time"
	}
	return ""
}
