// Sarama's client and admin client against a broker: records, a group, and the requests of tools.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	cfg := sarama.NewConfig()
	cfg.Version = sarama.V3_6_0_0
	cfg.Net.SASL.Enable, cfg.Net.SASL.User, cfg.Net.SASL.Password = true, "seb", os.Getenv("KEY")
	cfg.Producer.Return.Successes, cfg.Producer.Idempotent, cfg.Net.MaxOpenRequests = true, true, 1
	cfg.Producer.RequiredAcks = sarama.WaitForAll
	cfg.Consumer.Offsets.Initial = sarama.OffsetOldest
	brokers := []string{os.Getenv("BROKER")}
	admin, err := sarama.NewClusterAdmin(brokers, cfg)
	if err != nil {
		return err
	}
	defer admin.Close()
	for _, check := range []struct {
		what string
		do   func() error
	}{
		{"topics", func() error { return topics(admin) }},
		{"records", func() error { return records(brokers, cfg) }},
		{"a group", func() error { return group(brokers, cfg, admin) }},
		{"configs", func() error { return configs(admin) }},
		{"rights and what is absent", func() error { return rights(admin) }},
	} {
		if err := check.do(); err != nil {
			return fmt.Errorf("%s: %w", check.what, err)
		}
		fmt.Println(check.what)
	}
	return nil
}

func topics(admin sarama.ClusterAdmin) error {
	if err := admin.CreateTopic("plants", &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1}, false); err != nil {
		return err
	}
	if err := admin.CreatePartitions("plants", 3, nil, false); err != nil {
		return err
	}
	list, err := admin.DescribeTopics([]string{"plants"})
	if err != nil || len(list) != 1 || len(list[0].Partitions) != 3 {
		return fmt.Errorf("%+v, %w", list, err)
	}
	return nil
}

func records(brokers []string, cfg *sarama.Config) error {
	p, err := sarama.NewSyncProducer(brokers, cfg)
	if err != nil {
		return err
	}
	defer p.Close()
	for i := range 100 {
		_, _, err := p.SendMessage(&sarama.ProducerMessage{
			Topic: "plants", Key: sarama.StringEncoder(fmt.Sprint(i)), Value: sarama.StringEncoder("a plant"), Timestamp: time.Now(),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// reader marks the records that a member reads, up to the known end of each partition.
type reader struct{}

func (*reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r *reader) ConsumeClaim(s sarama.ConsumerGroupSession, c sarama.ConsumerGroupClaim) error {
	for range c.HighWaterMarkOffset() - c.InitialOffset() {
		select {
		case m := <-c.Messages():
			s.MarkMessage(m, "")
		case <-s.Context().Done():
			return nil
		}
	}
	return nil
}

func group(brokers []string, cfg *sarama.Config, admin sarama.ClusterAdmin) error {
	g, err := sarama.NewConsumerGroup(brokers, "gardeners", cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- g.Consume(ctx, []string{"plants"}, &reader{}) }()
	total := int64(0)
	for total < 100 {
		offsets, err := admin.ListConsumerGroupOffsets("gardeners", map[string][]int32{"plants": {0, 1, 2}})
		if err != nil || ctx.Err() != nil {
			return fmt.Errorf("%d of 100 are committed: %w", total, errors.Join(err, ctx.Err()))
		}
		total = 0
		for _, b := range offsets.Blocks["plants"] {
			total += max(0, b.Offset)
		}
		time.Sleep(100 * time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return g.Close()
}

func configs(admin sarama.ClusterAdmin) error {
	brokers, controller, err := admin.DescribeCluster()
	if err != nil || len(brokers) != 1 {
		return fmt.Errorf("%d brokers, %w", len(brokers), err)
	}
	list, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.BrokerResource, Name: fmt.Sprint(controller), ConfigNames: []string{"num.partitions"}})
	if err != nil || len(list) != 1 || list[0].Value != "1" || !list[0].ReadOnly {
		return fmt.Errorf("%+v, %w", list, err)
	}
	for name, value := range map[string]string{"retention.ms": "7777000", "remote.storage.enable": "false", "compression.zstd.level": "3"} {
		if err := admin.AlterConfig(sarama.TopicResource, "plants", map[string]*string{name: &value}, false); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	dirs, err := admin.DescribeLogDirs([]int32{controller})
	if err != nil || len(dirs[controller]) != 1 {
		return fmt.Errorf("%+v, %w", dirs, err)
	}
	return nil
}

func rights(admin sarama.ClusterAdmin) error {
	filter := sarama.AclFilter{ResourceType: sarama.AclResourceAny, ResourcePatternTypeFilter: sarama.AclPatternAny, Operation: sarama.AclOperationAny, PermissionType: sarama.AclPermissionAny}
	acl := sarama.Acl{Principal: "User:x", Host: "*", Operation: sarama.AclOperationRead, PermissionType: sarama.AclPermissionAllow}
	resource := sarama.Resource{ResourceType: sarama.AclResourceTopic, ResourceName: "plants", ResourcePatternType: sarama.AclPatternLiteral}
	if err := admin.CreateACL(resource, acl); err != nil {
		return fmt.Errorf("CreateACL: %w", err)
	}
	if list, err := admin.ListAcls(filter); err != nil || len(list) != 1 || len(list[0].Acls) != 1 || *list[0].Acls[0] != acl {
		return fmt.Errorf("ListAcls: %+v, %w", list, err)
	}
	if gone, err := admin.DeleteACL(filter, false); err != nil || len(gone) != 1 {
		return fmt.Errorf("DeleteACL: %+v, %w", gone, err)
	}
	if quotas, err := admin.DescribeClientQuotas(nil, false); err != nil || len(quotas) != 0 {
		return fmt.Errorf("DescribeClientQuotas: %+v, %w", quotas, err)
	}
	if users, err := admin.DescribeUserScramCredentials(nil); err != nil || len(users) != 0 {
		return fmt.Errorf("DescribeUserScramCredentials: %+v, %w", users, err)
	}
	if moves, err := admin.ListPartitionReassignments("plants", []int32{0}); err != nil || len(moves) != 0 {
		return fmt.Errorf("ListPartitionReassignments: %+v, %w", moves, err)
	}
	elected, err := admin.ElectLeaders(sarama.PreferredElection, map[string][]int32{"plants": {0}})
	if err != nil || elected["plants"][0].ErrorCode != sarama.ErrElectionNotNeeded {
		return fmt.Errorf("ElectLeaders: %+v, %w", elected, err)
	}
	return nil
}
