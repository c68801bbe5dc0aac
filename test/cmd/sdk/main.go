// Command sdk compares package client and the SDKs for other languages: their conformance commands get the same
// calls with the same faults, such as a broker that is killed, another one that takes over, answers that are cut,
// refused, late, or come from a proxy, wrong keys and wrong certificates. What a client is told must be true of the
// broker, and the same in all languages. It prints a table of calls and faults, and with -report writes it into a
// file in Markdown; with an answer that is wrong or differs the exit code is 1. It takes 3 minutes.
//
// With -workers ten workers of all languages share a queue instead, while producers of all languages send messages
// with dedup IDs, and brokers and workers are killed. Then each message must have been given to a worker, none may
// be left, and those that fail must be one dead letter each. It prints the totals, also how many messages were
// given more than once. It needs python3 and node; a language whose program is missing is left out.
//
//	go run ./test/cmd/sdk                                 all calls, faults and languages
//	go run ./test/cmd/sdk -only 'send.* / .*503.*'        cells by a regular expression
//	go run ./test/cmd/sdk -languages go,python
//	go run ./test/cmd/sdk -report docs/reports/sdk.md     the published table
//	go run ./test/cmd/sdk -workers -time 10m
package main

import (
	"context"
	_ "embed"
	"flag"
	"path/filepath"
	"time"

	"github.com/sebbroker/seb/test/campaign"
)

//go:embed main.go
var source string

func main() {
	flag.String("only", "", "regular expression of the cells to run, as call / fault")
	flag.String("languages", "", "languages, separated by commas (empty: all)")
	flag.Int("lanes", 6, "cells of a language at once")
	report := flag.String("report", "", "Markdown file for the table")
	workers := flag.Bool("workers", false, "share a queue among workers of all languages instead")
	flag.Duration("time", 2*time.Minute, "with -workers: duration of the load")
	campaign.Main(source, func(context.Context) ([]campaign.Step, error) {
		if *workers {
			args := append([]string{"-args", "-workers=10"}, campaign.Flags("languages", "time")...)
			return []campaign.Step{campaign.Test("test/sdk/conformance", "^TestWorkers$", args...)}, nil
		}
		if *report != "" { // the test runs in its own folder
			path, err := filepath.Abs(*report)
			if err != nil {
				return nil, err
			}
			*report = path
		}
		args := append([]string{"-args", "-full"}, campaign.Flags("only", "languages", "lanes", "report")...)
		return []campaign.Step{campaign.Test("test/sdk/conformance", "^TestMatrix$", args...)}, nil
	})
}
