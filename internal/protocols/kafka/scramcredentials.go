package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// DescribeUserScramCredentials (50) and AlterUserScramCredentials (51), v0: passwords of users. The
// client sends the salted password; only verifiers of it are stored. Tokens are not among them.
var (
	_ = register(api{
		key: kmsg.DescribeUserSCRAMCredentials, min: 0, max: 0,
		shape: wire.Shape{Flexible: 0, Fields: []wire.Field{wire.Array(wire.Text)}},
		begin: serving((*call).describeUserSCRAMCredentials),
	})
	_ = register(api{
		key: kmsg.AlterUserSCRAMCredentials, min: 0, max: 0, leader: true,
		shape: wire.Shape{Flexible: 0, Fields: []wire.Field{
			wire.Array(wire.Text, wire.Int8), wire.Array(wire.Text, wire.Int8, wire.Int32, wire.Bytes, wire.Bytes),
		}},
		begin: serving((*call).alterUserSCRAMCredentials),
	})
)

func (c *call) describeUserSCRAMCredentials(_ context.Context, r *kmsg.DescribeUserSCRAMCredentialsRequest) (*kmsg.DescribeUserSCRAMCredentialsResponse, error) {
	resp := kmsg.NewPtrDescribeUserSCRAMCredentialsResponse()
	if resp.ErrorCode = c.clusterDenied(access.Describe); resp.ErrorCode != none {
		resp.ErrorMessage = text(errDenied)
		return resp, nil
	}
	t := c.b.Access()
	count := map[string]int{}
	var users []string
	for _, u := range r.Users {
		if count[u.Name]++; count[u.Name] == 1 {
			users = append(users, u.Name)
		}
	}
	if len(r.Users) == 0 {
		for _, p := range t.Principals() {
			if len(auth.Passwords(p)) > 0 {
				users = append(users, p.ID)
			}
		}
	}
	if err := c.frame.Charge(int64(len(users)) * ruleBytes); err != nil {
		return nil, err
	}
	for _, name := range users {
		result := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		result.User = name
		var passwords []access.Scram
		if p := t.Principal(name); p != nil {
			passwords = auth.Passwords(p)
		}
		switch {
		case count[name] > 1:
			result.ErrorCode, result.ErrorMessage = kerr.DuplicateResource.Code, text(fmt.Errorf("the request names user %.80q twice", name))
			passwords = nil
		case len(passwords) == 0:
			result.ErrorCode, result.ErrorMessage = kerr.ResourceNotFound.Code, text(fmt.Errorf("user %.80q has no password", name))
		}
		for i := range passwords {
			info := kmsg.NewDescribeUserSCRAMCredentialsResponseResultCredentialInfo()
			info.Mechanism, info.Iterations = int8(passwords[i].Mechanism), int32(passwords[i].Iterations)
			result.CredentialInfos = append(result.CredentialInfos, info)
		}
		resp.Results = append(resp.Results, result)
	}
	return resp, nil
}

// alterUserSCRAMCredentials answers once per user: with the first fault, or after all changes.
func (c *call) alterUserSCRAMCredentials(ctx context.Context, r *kmsg.AlterUserSCRAMCredentialsRequest) (*kmsg.AlterUserSCRAMCredentialsResponse, error) {
	resp := kmsg.NewPtrAlterUserSCRAMCredentialsResponse()
	ctx, cancel := c.waitFor(ctx, int32(commitTime.Milliseconds()))
	defer cancel()
	ctx, denied := c.as(ctx, access.Alter, access.Cluster, access.ClusterName)
	type credential struct {
		user      string
		mechanism int8
	}
	changes := map[credential]int{}
	for _, d := range r.Deletions {
		changes[credential{d.Name, d.Mechanism}]++
	}
	for i := range r.Upsertions {
		changes[credential{r.Upsertions[i].Name, r.Upsertions[i].Mechanism}]++
	}
	at := map[string]int{}
	apply := func(user string, mechanism int8, change func(m access.Mechanism) error) {
		i, known := at[user]
		if !known {
			i = len(resp.Results)
			at[user] = i
			result := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
			result.User = user
			resp.Results = append(resp.Results, result)
		}
		result := &resp.Results[i]
		switch m := access.Mechanism(mechanism); {
		case result.ErrorCode != none:
		case denied != none:
			result.ErrorCode, result.ErrorMessage = denied, text(errDenied)
		case user == "":
			result.ErrorCode, result.ErrorMessage = kerr.UnacceptableCredential.Code, text(errors.New("the name of the user is empty"))
		case m != access.SCRAMSHA256 && m != access.SCRAMSHA512:
			result.ErrorCode, result.ErrorMessage = kerr.UnsupportedSaslMechanism.Code, text(fmt.Errorf("unknown SCRAM mechanism %d", mechanism))
		case changes[credential{user, mechanism}] > 1:
			result.ErrorCode, result.ErrorMessage = kerr.DuplicateResource.Code, text(fmt.Errorf("the request changes %s of user %.80q twice", m, user))
		default:
			if err := change(m); err != nil {
				result.ErrorCode, result.ErrorMessage = accessCode(err), text(err)
			}
		}
	}
	for _, d := range r.Deletions {
		apply(d.Name, d.Mechanism, func(m access.Mechanism) error { return c.o.Auth.DeletePassword(ctx, d.Name, m) })
	}
	for i := range r.Upsertions {
		u := &r.Upsertions[i]
		apply(u.Name, u.Mechanism, func(m access.Mechanism) error {
			return c.o.Auth.SetPassword(ctx, c.who, auth.Password{
				User: u.Name, Mechanism: m, Iterations: uint32(max(0, u.Iterations)), Salt: u.Salt, Salted: u.SaltedPassword,
			})
		})
	}
	return resp, nil
}
