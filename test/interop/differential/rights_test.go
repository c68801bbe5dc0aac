package differential

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/sebbroker/seb/internal/engine/access"
)

// loginOf is the login of a user other than the main one.
func loginOf(name string) sasl.Mechanism {
	return scram.Auth{User: name, Pass: passwordOf}.AsSha512Mechanism()
}

// watchName is the user that shows when rules are in force.
func watchName(limited string) string { return limited + "-watch" }

// limit makes the run send most requests as a user with a password and with rules.
func (r *run) limit() error {
	limited := r.gen.prefix + "limited"
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	for _, name := range []string{limited, watchName(limited)} {
		req.Upsertions = append(req.Upsertions, credential(name, access.SCRAMSHA512, 4096))
	}
	r.gen.limited = limited
	for _, s := range r.sides() {
		s.limited = limited
		c, err := s.client(mainActor)
		if err != nil {
			return err
		}
		o := c.ask(req, 0)
		if resp, ok := o.resp.(*kmsg.AlterUserSCRAMCredentialsResponse); !ok || resp.Results[0].ErrorCode != 0 || resp.Results[1].ErrorCode != 0 {
			return fmt.Errorf("%s does not set passwords: %s", s.name, show(o))
		}
		for _, actor := range []int{limitedActor, watchActor} {
			if err := eventually(s.name+" refuses the new password", func() error { _, err := s.client(actor); return err }); err != nil {
				return err
			}
		}
	}
	return nil
}

// rules describes the rules of the limited user, for a failure.
func (r *run) rules() string {
	c, err := r.seb.client(mainActor)
	if r.gen.limited == "" || err != nil {
		return ""
	}
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
	req.Operation, req.PermissionType, req.Principal = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny, text("User:"+r.gen.limited)
	o := c.ask(req, 3)
	resp, ok := o.resp.(*kmsg.DescribeACLsResponse)
	if !ok {
		return "\nno rules: " + show(o)
	}
	var out strings.Builder
	out.WriteString("\nrules of the limited user:")
	for _, of := range resp.Resources {
		for _, a := range of.ACLs {
			fmt.Fprintf(&out, "\n  %s %s on %s %s %q from %s", a.PermissionType, a.Operation, of.ResourceType, of.ResourcePatternType, of.ResourceName, a.Host)
		}
	}
	return out.String()
}

// eventually repeats try until it returns nil.
func eventually(what string, try func() error) error {
	for began := time.Now(); ; time.Sleep(againWait) {
		err := try()
		if err == nil || time.Since(began) > lagTime {
			if err != nil {
				err = fmt.Errorf("%s: %w", what, err)
			}
			return err
		}
	}
}

// ruled waits until both brokers apply the rules that they have acknowledged. Kafka's broker and
// its controller apply changes in order but at different times, so the run allows a user the
// creation of a marker and waits until both let it.
func (r *run) ruled(marker string) error {
	req := kmsg.NewPtrCreateACLsRequest()
	c := kmsg.NewCreateACLsRequestCreation()
	c.ResourceType, c.ResourceName, c.ResourcePatternType = kmsg.ACLResourceTypeTopic, marker, kmsg.ACLResourcePatternTypeLiteral
	c.Principal, c.Host, c.Operation, c.PermissionType = "User:"+watchName(r.gen.limited), "*", kmsg.ACLOperationAll, kmsg.ACLPermissionTypeAllow
	req.Creations = []kmsg.CreateACLsRequestCreation{c}
	create := kmsg.NewPtrCreateTopicsRequest()
	create.ValidateOnly, create.TimeoutMillis = true, 20_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = marker, 1, 1
	create.Topics = append(create.Topics, topic)
	find := kmsg.NewPtrMetadataRequest()
	find.Topics = []kmsg.MetadataRequestTopic{{Topic: &marker}}
	for _, s := range r.sides() {
		main, err := s.client(mainActor)
		if err != nil {
			return err
		}
		if o := main.ask(req, 2); o.resp == nil {
			return fmt.Errorf("%s creates no marker: %s", s.name, show(o))
		}
		watch, err := s.client(watchActor)
		if err != nil {
			return err
		}
		err = eventually(s.name+" does not apply rules", func() error {
			made, ok := watch.ask(create, 5).resp.(*kmsg.CreateTopicsResponse)
			found, ok2 := watch.ask(find, 9).resp.(*kmsg.MetadataResponse)
			denied := kerr.TopicAuthorizationFailed.Code
			if !ok || !ok2 || made.Topics[0].ErrorCode == denied || found.Topics[0].ErrorCode == denied {
				return fmt.Errorf("answers %+v and %+v", made, found)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
