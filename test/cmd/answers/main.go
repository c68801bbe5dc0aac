// Command answers compares what two versions of seb answer to the same calls: over HTTP, over Kafka
// and on the command line. After a refactoring there must be no difference. It takes about two
// minutes for each version. It prints a unified diff for each answer that differs, and a table of
// counts; with a difference the exit code is 1.
//
//	go run ./test/cmd/answers -base HEAD~3                   a commit, and the working tree
//	go run ./test/cmd/answers -base bin/old -head bin/new    two programs
//	go run ./test/cmd/answers -head bin/old -record FILE     write the answers of a program to a file
//	go run ./test/cmd/answers -compare FILE                  the file, and the working tree
//
// The calls are in test/answers/calls; test/answers/calls.go describes their form. IDs, times,
// addresses and folders are replaced by placeholders. Two runs of one program have no difference.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sebbroker/seb/test/answers"
	"github.com/sebbroker/seb/test/campaign"
)

//go:embed main.go
var source string

func main() {
	base := flag.String("base", "", "commit or program to compare with")
	head := flag.String("head", "", "commit or program (default: the working tree)")
	record := flag.String("record", "", "file for the answers of -head")
	compare := flag.String("compare", "", "file with the answers to compare with, instead of -base")
	list := flag.String("calls", "", "file with another list of calls")
	campaign.Do(source, func(ctx context.Context) error {
		if (*base == "") == (*compare == "") && (*base != "" || *record == "") {
			return errors.New("one of -base, -compare and -record is required, and only one of -base and -compare")
		}
		return run(ctx, *base, *head, *record, *compare, *list)
	})
}

func run(ctx context.Context, base, head, record, compare, file string) error {
	list, err := answers.Calls()
	if file != "" {
		var text []byte
		text, err = os.ReadFile(file)
		list = string(text)
	}
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "seb-programs")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ask := func(name, version string) ([]answers.Answer, error) {
		path, err := campaign.Program(ctx, filepath.Join(dir, name), version)
		if err != nil {
			return nil, err
		}
		return answers.Run(ctx, path, list)
	}
	var was []answers.Answer
	if compare != "" {
		f, err := os.Open(compare)
		if err != nil {
			return err
		}
		defer f.Close()
		if was, err = answers.Read(f); err != nil {
			return err
		}
	} else if base != "" {
		if was, err = ask("base", base); err != nil {
			return err
		}
	}
	is, err := ask("head", head)
	if err != nil {
		return err
	}
	if record != "" {
		f, err := os.Create(record)
		if err != nil {
			return err
		}
		if err := errors.Join(answers.Write(f, is), f.Close()); err != nil {
			return err
		}
		fmt.Printf("%d answers in %s\n", len(is), record)
	}
	if was == nil {
		return nil
	}
	different, err := answers.Compare(ctx, os.Stdout, was, is)
	if err == nil && different > 0 {
		err = fmt.Errorf("%d of %d answers differ", different, len(is))
	}
	return err
}
