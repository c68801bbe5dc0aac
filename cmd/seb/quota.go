package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/config"
)

func newQuota() *cobra.Command {
	var r remote
	return r.parent(&cobra.Command{
		Use:     "quota",
		Aliases: []string{"quotas"},
		Short:   "Set, list and remove quotas: bytes and requests per second of tokens and users",
		Long: `A quota limits what all clients of a principal send and read together on one broker. Over it, HTTP answers 429 with Retry-After
and Kafka clients are throttled. The principal * stands for each one without a quota of its own. The root key has none.`,
	}, newQuotaSet(&r), newQuotaList(&r), newQuotaRemove(&r))
}

func newQuotaSet(r *remote) *cobra.Command {
	var produce, fetch config.Bytes
	var q client.Quota
	cmd := &cobra.Command{
		Use:     "set PRINCIPAL",
		Short:   "Set the quota of a principal, in place of the one that it has",
		Long:    `PRINCIPAL is the ID of a token, the name of a user, or * for all without a quota of their own. A limit without its flag is no limit.`,
		Example: "  seb quota set shop --produce 1MiB --fetch 10MiB --requests 100\n  seb quota set '*' --requests 500",
		Args:    cobra.ExactArgs(1),
		RunE: r.action(func(cmd *cobra.Command, c *client.Client, args []string) error {
			q.Principal, q.ProduceBytes, q.FetchBytes = args[0], int64(produce), int64(fetch)
			return c.SetQuota(cmd.Context(), q)
		}),
	}
	f := cmd.Flags()
	f.Var(&produce, "produce", "bytes per second of requests with a body, or of Kafka's Produce (e.g. 1MiB)")
	f.Var(&fetch, "fetch", "bytes per second of answers to reads (e.g. 10MiB)")
	f.Int64Var(&q.Requests, "requests", 0, "requests per second")
	return cmd
}

func newQuotaList(r *remote) *cobra.Command {
	return newList(r, "quotas", (*client.Client).Quotas, "PRINCIPAL\tPRODUCE/S\tFETCH/S\tREQUESTS/S", func(w io.Writer, q *client.Quota) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", q.Principal, limitText(config.Bytes(q.ProduceBytes).String(), q.ProduceBytes),
			limitText(config.Bytes(q.FetchBytes).String(), q.FetchBytes), limitText(strconv.FormatInt(q.Requests, 10), q.Requests))
	})
}

func limitText(text string, limit int64) string {
	if limit == 0 {
		return "-"
	}
	return text
}

func newQuotaRemove(r *remote) *cobra.Command {
	return &cobra.Command{
		Use:     "remove PRINCIPAL",
		Aliases: []string{"delete", "rm"},
		Short:   "Remove the quota of a principal",
		Args:    cobra.ExactArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			return completer(r, (*client.Client).Quotas, func(q *client.Quota) string { return q.Principal })(cmd, args, toComplete)
		},
		RunE: r.action(func(cmd *cobra.Command, c *client.Client, args []string) error {
			return c.RemoveQuota(cmd.Context(), args[0])
		}),
	}
}
