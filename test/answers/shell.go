package answers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// shell runs a command line. seb is the program, and finds the broker "main" in the folder. The
// lines of the body are the input.
func (r *run) shell(ctx context.Context, c *call) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", c.what)
	cmd.Dir = r.dir
	cmd.WaitDelay = time.Second
	cmd.Env = []string{"PATH=" + r.dir + "/bin:" + os.Getenv("PATH"), "HOME=" + r.dir, "TZ=UTC", "LC_ALL=C", "TMPDIR=" + r.dir}
	body, err := c.bytes("\n")
	if err != nil {
		return "", err
	}
	if len(body) > 0 {
		body = append(body, '\n')
	}
	cmd.Stdin = strings.NewReader(string(body))
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", err
	}
	if ctx.Err() != nil {
		return "", errors.New("no end after a minute")
	}
	text := fmt.Sprintf("exit code %d\n%s", cmd.ProcessState.ExitCode(), out.String())
	if errs.Len() > 0 {
		text += "stderr:\n" + errs.String()
	}
	return text, nil
}

// help prints the help of a command and of those below it, which its completion names.
func (r *run) help(ctx context.Context, c *call, command string) ([]Answer, error) {
	one := *c
	one.label, one.what = "$ "+command+" --help", command+" --help"
	answers, err := r.one(ctx, &one, "cli", r.shell)
	if err != nil {
		return nil, err
	}
	one.what = strings.Replace(command, "seb", "seb __complete", 1) + " ''"
	text, err := r.shell(ctx, &one)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		name, _, ok := strings.Cut(line, "\t")
		if !ok || strings.HasPrefix(name, "-") || name == "help" {
			continue
		}
		below, err := r.help(ctx, c, command+" "+name)
		if err != nil {
			return nil, err
		}
		answers = append(answers, below...)
	}
	return answers, nil
}
