package queues

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
)

// sebClient uses package client.
type sebClient struct {
	*caller
	c       *Config
	alone   bool
	address string
	client  *client.Client
}

// openSeb returns a client whose workers are those of client.Work, or alone, each with requests of its own.
func openSeb(alone bool) func(ctx context.Context, c *Config) (Client, error) {
	return func(ctx context.Context, c *Config) (Client, error) {
		t := c.target("seb")
		key, err := os.ReadFile(t.Options["key-file"])
		if err != nil {
			return nil, err
		}
		s := &sebClient{caller: newCaller(), c: c, alone: alone, address: t.Address + "/queues/" + c.Name}
		token := strings.TrimSpace(string(key))
		s.header.Set("Authorization", "Bearer "+token)
		s.header.Set("Content-Type", api.JSON)
		if s.client, err = client.New(t.Address, client.Options{APIKey: token}); err != nil {
			return nil, err
		}
		_, err = s.client.CreateQueue(ctx, c.Name, client.QueueSpec{})
		return s, err
	}
}

func (s *sebClient) Processes() []int { return nil }

func (s *sebClient) Close() error {
	s.client.Close()
	return s.caller.Close()
}

func (s *sebClient) Sender(context.Context) (Sender, error) { return sebSender{s}, nil }

type sebSender struct{ *sebClient }

var errRefused = errors.New("refused")

func (s sebSender) Send(ctx context.Context, messages [][]byte) error {
	list := make([]client.OutgoingMessage, len(messages))
	for i, m := range messages {
		text := string(m)
		list[i].Value = &text
	}
	results, err := s.client.SendMessages(ctx, s.c.Name, list...)
	for i := range results {
		if results[i].Code != "" {
			err = errors.Join(err, errRefused, errors.New(results[i].Detail))
		}
	}
	return err
}

func (s *sebClient) Work(ctx context.Context, l Listener) error {
	if !s.alone {
		return s.client.Work(ctx, s.c.Name, client.WorkOptions{Concurrency: s.c.Workers * s.c.Batch}, func(_ context.Context, m *client.LeasedMessage) error {
			l.Begin(m.Value, Now())
			l.Settled(1)
			return nil
		})
	}
	return each(ctx, s.c.Workers, func(ctx context.Context, _ int) error {
		for ctx.Err() == nil {
			var leased api.QueueMessages
			if err := s.call(ctx, "POST", s.address+"/lease", nil, api.LeaseRequest{Max: s.c.Batch, Wait: waitMax.String()}, &leased); err != nil {
				return err
			}
			if len(leased.Messages) == 0 {
				continue
			}
			said := api.Settlements{Messages: make([]api.Settlement, len(leased.Messages))}
			for i := range leased.Messages {
				m := &leased.Messages[i]
				l.Begin([]byte(*m.Value), Now())
				said.Messages[i] = api.Settlement{Receipt: m.Receipt, Do: "done"}
			}
			var results api.MessageResults
			if err := s.call(context.WithoutCancel(ctx), "POST", s.address+"/settle", nil, said, &results); err != nil {
				return err
			}
			for i := range results.Messages {
				if results.Messages[i].Code != "" {
					return errors.Join(errRefused, errors.New(results.Messages[i].Detail))
				}
			}
			l.Settled(len(results.Messages))
		}
		return nil
	})
}
