package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/config"
)

func newACL() *cobra.Command {
	var r remote
	return r.parent(&cobra.Command{
		Use:     "acl",
		Aliases: []string{"acls"},
		Short:   "List, add and remove rules: what tokens and users may do",
		Long: `A rule allows or denies a principal an operation on resources of a type. A denial overrides every permission. Without a rule
nothing is allowed. Rules do not apply to the root key. They are the rules of Kafka's tools; "seb token create" makes common sets.`,
	}, newACLAdd(&r, "allow"), newACLAdd(&r, "deny"), newACLList(&r), newACLRemove(&r))
}

// ruleText describes a rule: allow read on topic orders.*.
func ruleText(r *client.Rule) string {
	verb := "allow"
	if r.Deny {
		verb = "deny"
	}
	text := fmt.Sprintf("%s %s on %s %s", verb, r.Operation, r.Resource, r.Pattern)
	if r.Host != "" && r.Host != "*" {
		text += " from " + r.Host
	}
	return text
}

func newACLAdd(r *remote, verb string) *cobra.Command {
	var host string
	short := map[string]string{"allow": "Allow a principal an operation", "deny": "Deny a principal an operation, whatever other rules allow"}
	cmd := &cobra.Command{
		Use:   verb + " PRINCIPAL OPERATION RESOURCE PATTERN",
		Short: short[verb],
		Long: `PRINCIPAL is the ID of a token, the name of a user, or * for all. OPERATION is all, read, write, create, delete, alter, describe,
describe-configs or alter-configs. RESOURCE is topic, group, trigger, cluster, metrics or transactional-id. PATTERN is a name, the
beginning of names and *, or * for every name; that of the cluster is kafka-cluster, that of metrics is metrics.`,
		Example: "  seb acl " + verb + " shop write topic 'orders.*'\n  seb acl " + verb + " '*' read topic archive --host 192.0.2.7",
		Args:    cobra.ExactArgs(4),
		RunE: r.action(func(cmd *cobra.Command, c *client.Client, args []string) error {
			rule := client.Rule{Principal: args[0], Operation: args[1], Resource: args[2], Pattern: args[3], Host: host, Deny: verb == "deny"}
			return c.AddRules(cmd.Context(), []client.Rule{rule})
		}),
	}
	cmd.Flags().StringVar(&host, "host", "", "IP address of the client (default any)")
	return cmd
}

// filterFlags select rules.
type filterFlags struct {
	client.RuleFilter
	deny bool
}

func (f *filterFlags) register(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringVar(&f.Principal, "principal", "", "only rules of this principal")
	s.StringVar(&f.Resource, "resource", "", "only rules about this type: topic, group, trigger, cluster, metrics, transactional-id")
	s.StringVar(&f.Pattern, "pattern", "", "only rules with this pattern")
	s.StringVar(&f.Operation, "operation", "", "only rules about this operation")
	s.StringVar(&f.Host, "host", "", "only rules for this address; * for those of every address")
	s.BoolVar(&f.deny, "deny", false, "only denials; --deny=false: only permissions")
}

func (f *filterFlags) filter(cmd *cobra.Command) client.RuleFilter {
	if cmd.Flags().Changed("deny") {
		f.Deny = &f.deny
	}
	return f.RuleFilter
}

func newACLList(r *remote) *cobra.Command {
	var f filterFlags
	var cmd *cobra.Command
	cmd = newList(r, "rules", func(c *client.Client, ctx context.Context) ([]client.Rule, error) {
		return c.Rules(ctx, f.filter(cmd))
	}, "PRINCIPAL\tRULE", func(w io.Writer, rule *client.Rule) { fmt.Fprintf(w, "%s\t%s\n", rule.Principal, ruleText(rule)) })
	f.register(cmd)
	return cmd
}

func newACLRemove(r *remote) *cobra.Command {
	var f filterFlags
	var yes bool
	cmd := &cobra.Command{
		Use:     "remove",
		Aliases: []string{"delete", "rm"},
		Short:   "Remove the rules that all flags match, and print them",
		Example: "  seb acl remove --principal shop --resource topic --pattern 'orders.*' --yes",
		Args:    cobra.NoArgs,
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "remove without asking")
	cmd.RunE = r.action(func(cmd *cobra.Command, c *client.Client, _ []string) error {
		filter := f.filter(cmd)
		if filter == (client.RuleFilter{}) {
			return usageError{errors.New("at least one flag must select rules")}
		}
		if !yes {
			rules, err := c.Rules(cmd.Context(), filter)
			if err != nil {
				return err
			}
			if err := confirm(cmd, false, false, "would remove "+counted(int64(len(rules)), "rule")); err != nil {
				return err
			}
		}
		removed, err := c.RemoveRules(cmd.Context(), filter)
		for i := range removed {
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", removed[i].Principal, ruleText(&removed[i]))
		}
		return err
	})
	return cmd
}

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
