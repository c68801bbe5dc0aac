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
	"github.com/sebbroker/seb/internal/objstore/storecheck"
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
		Short: "What the exit codes mean",
		Long: `0  done; for serve: stopped as asked, everything acknowledged is stored
1  an error; the line on stderr says what to do. Also: the store does not answer, or an fsync failed: start again
2  the command line or a setting is wrong, or the bucket needs a newer Seb
3  serve: another broker has taken over this bucket
4  serve, check-store: the store fails a check that Seb stands on, or refuses this caller
5  stored data is corrupt, or a part of the log is missing: nothing was deleted or skipped
6  produce, event, topic, trigger: no answer in time: what was sent may appear once, or never
130  interrupted (not serve and consume --follow, which are ended so)

The first three are what shells and service managers expect. A service manager restarts serve after 1, and not after 2, 3, 4
and 5, which need a person (systemd: Restart=on-failure, RestartPreventExitStatus=2 3 4 5).`,
	}
}

// usageError is a fault in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func exitCode(err error) int {
	var usage usageError
	var faults config.Faults
	var check *storecheck.Error
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage), errors.As(err, &faults), errors.Is(err, state.ErrNewer):
		return exitUsage
	case errors.Is(err, broker.ErrFenced):
		return exitFenced
	case errors.Is(err, objstore.ErrBroken), errors.As(err, &check) && errors.Is(err, objstore.ErrNoVerdict):
		return exitError // a new start may succeed
	case errors.As(err, &check), errors.Is(err, objstore.ErrRefused):
		return exitStore
	case errors.Is(err, core.ErrForeignBucket), errors.Is(err, broker.ErrCorrupt), errors.Is(err, record.ErrCorrupt), errors.Is(err, client.ErrCorrupt):
		return exitCorrupt
	case errors.Is(err, client.ErrOutcomeUnknown), errors.Is(err, broker.ErrOutcomeUnknown):
		return exitUnknown
	case errors.Is(err, context.Canceled):
		return exitStopped
	}
	return exitError
}

// oneLine is what a person reads of an error: one line that says what happened and, where we know, what to do.
func oneLine(err error) string {
	var newer *state.NewerError
	if errors.As(err, &newer) {
		return newer.Error() // where it was met does not matter
	}
	text := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	if h := hint(err); h != "" {
		text += ": " + h
	}
	return text
}

// forPeople is oneLine, or a list where several settings are wrong.
func forPeople(err error) string {
	var faults config.Faults
	if !errors.As(err, &faults) || len(faults) < 2 {
		return oneLine(err)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d settings are wrong (see `seb help`)", len(faults))
	for _, f := range faults {
		text.WriteString("\n  " + f.Error())
	}
	return text.String()
}

// hint says what to do about an error.
func hint(err error) string {
	var usage usageError
	switch {
	case errors.As(err, &usage):
		return "see `seb help`"
	case errors.Is(err, client.ErrUnauthorized):
		return "give the broker's key with --api-key or $SEB_API_KEY"
	case errors.Is(err, client.ErrUnknownTopic):
		return "`seb topic list` shows what there is, `seb topic create` makes one"
	case errors.Is(err, client.ErrUnknownGroup):
		return "`seb group list` shows what there is; a group is there once it has committed something"
	case errors.Is(err, client.ErrKeyNotFound):
		return "`seb key list` shows the keys that have a value"
	case errors.Is(err, client.ErrKeyIndexBehind):
		return "try again, or wait longer with --wait"
	case errors.Is(err, client.ErrBelowStart):
		return "these records are gone; begin with --offset earliest, or move the group with `seb group reset`"
	case errors.Is(err, objstore.ErrNoVerdict):
		return "the store did not answer; check the endpoint in --bucket, the network and the credentials"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "no broker answers there; start one with `seb serve`, or name another with --address"
	case errors.Is(err, syscall.EADDRINUSE):
		return "another program listens there; choose another port"
	case errors.Is(err, broker.ErrFenced):
		return "only one broker can write to a bucket; stop this one, or start it with --read-only"
	case errors.Is(err, client.ErrOutcomeUnknown):
		return "read the topic's end before sending again"
	case errors.Is(err, fs.ErrPermission):
		return "check the permissions of this user"
	case errors.Is(err, context.DeadlineExceeded):
		return "the broker did not answer in time"
	}
	return ""
}
