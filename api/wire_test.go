package api_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// wire has every type of the API.
var wire = []any{
	api.QueueSpec{},
	api.Queue{},
	api.Queues{},
	api.Message{},
	api.Messages{},
	api.MessageResult{},
	api.MessageResults{},
	api.LeaseRequest{},
	api.QueueMessage{},
	api.QueueMessages{},
	api.MessageTry{},
	api.Settlement{},
	api.Settlements{},
	api.RedriveRequest{},
	api.Redriven{},
	api.Purged{},
	api.ScheduleSpec{},
	api.Schedule{},
	api.Schedules{},
	api.TokenSpec{},
	api.Scopes{},
	api.Rule{},
	api.RuleList{},
	api.Rules{},
	api.Quota{},
	api.Quotas{},
	api.Token{},
	api.TokenSecret{},
	api.AuditActor{},
	api.AuditRecord{},
	api.AuditResource{},
	api.SigningPair{},
	api.TokenCreated{},
	api.Tokens{},
	api.AwaitedEvent{},
	api.Session{},
	api.Cluster{},
	api.ClusterMember{},
	api.Cost{},
	api.PutBudget{},
	api.RequestCost{},
	api.StorageCost{},
	api.Stats{},
	api.StatsSeries{},
	api.Latency{},
	api.LatencyCurve{},
	api.LatencyPoint{},
	api.Setting{},
	api.Settings{},
	api.DryRun{},
	api.DryRunEstimate{},
	api.DryRunProgress{},
	api.Estimate{},
	api.NotFired{},
	api.Evaluation{},
	api.EvaluationStep{},
	api.EventStored{},
	api.Expression{},
	api.ExpressionSpan{},
	api.ExpressionWarning{},
	api.Stories{},
	api.Story{},
	api.StoryEvent{},
	api.EventNames{},
	api.RiemannIndex{},
	api.EventName{},
	api.EventProperty{},
	api.Explanation{},
	api.EntityHistory{},
	api.EventCount{},
	api.HistoryStep{},
	api.Entity{},
	api.EntityTrigger{},
	api.Firing{},
	api.Firings{},
	api.Group{},
	api.GroupMember{},
	api.GroupOffset{},
	api.TopicPartitions{},
	api.Groups{},
	api.Transaction{},
	api.TransactionPartition{},
	api.Transactions{},
	api.TransactionsStatus{},
	api.Header{},
	api.Health{},
	api.Status{},
	api.StoreStatus{},
	api.MemoryStatus{},
	api.ConnectionsStatus{},
	api.ListenerStatus{},
	api.ProducersStatus{},
	api.CompactionStatus{},
	api.KafkaStatus{},
	api.RiemannStatus{},
	api.RiemannIndexStatus{},
	api.LagStatus{},
	api.GroupLag{},
	api.Letters{},
	api.HistoryStart{},
	api.KeyEntry{},
	api.KeyHistory{},
	api.Keys{},
	api.LogTime{},
	api.OffsetCommit{},
	api.OffsetCommits{},
	api.OffsetResult{},
	api.OffsetResults{},
	api.Offsets{},
	api.Partition{},
	api.PartitionOffset{},
	api.PartitionResult{},
	api.PartitionRecord{},
	api.Problem{},
	api.Produced{},
	api.Record{},
	api.Sample{},
	api.ScanProgress{},
	api.Secrets{},
	api.Stored{},
	api.StoredBatches{},
	api.StoredRecord{},
	api.Topic{},
	api.TopicSpec{},
	api.TopicOffsets{},
	api.Topics{},
	api.Trigger{},
	api.TriggerSpec{},
	api.TriggerCheck{},
	api.TriggerFault{},
	api.TriggerFirings{},
	api.TriggerStored{},
	api.Triggers{},
	api.Upgrade{},
	api.MatchedEvent{},
}

// golden is the content of a testdata file: a value with all members set, and the zero value.
type golden struct {
	Full json.RawMessage `json:"full"`
	Zero json.RawMessage `json:"zero"`
}

// TestWire compares the JSON of every type with testdata, and checks that decoding loses nothing.
// -update writes testdata.
func TestWire(t *testing.T) {
	for _, zero := range wire {
		typ := reflect.TypeOf(zero)
		t.Run(typ.Name(), func(t *testing.T) {
			full := reflect.New(typ)
			fill(full.Elem(), typ.Name())
			got := encode(t, golden{encode(t, full.Interface()), encode(t, zero)})
			file := filepath.Join("testdata", typ.Name()+".json")
			if *sebtest.Update {
				must.NoError(t, os.WriteFile(file, got, 0o644))
			}
			want := must.Get(os.ReadFile(file))(t)
			check.EqualSlicesf(t, got, want, "encoded as")
			var g golden
			must.NoError(t, json.Unmarshal(want, &g))
			back := reflect.New(typ)
			must.NoError(t, json.Unmarshal(g.Full, back.Interface()))
			if !reflect.DeepEqual(back.Interface(), full.Interface()) {
				t.Errorf("decoded as %+v\nwant %+v", back, full)
			}
		})
	}
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	b := must.Get(json.MarshalIndent(v, "", "\t"))(t)
	return append(b, '\n')
}

// fill sets every field to a non-zero value.
func fill(v reflect.Value, name string) {
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = time.Date(2026, 1, 2, 3, 4, 5, 600e6, time.UTC)
		return
	case *json.RawMessage:
		*x = json.RawMessage(`"` + name + `"`)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), v.Type().Field(i).Name)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), name)
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value, name)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), value)
	case reflect.String:
		v.SetString(name)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(len(name)))
	case reflect.Float64:
		v.SetFloat(float64(len(name)) + 0.5)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(len(name)))
	default:
		panic("fill a " + v.Type().String())
	}
}

// TestEveryWireTypeIsThere: every struct of the package has a file in testdata.
func TestEveryWireTypeIsThere(t *testing.T) {
	var have, want []string
	for _, v := range wire {
		have = append(have, reflect.TypeOf(v).Name())
	}
	files := must.Get(filepath.Glob("*.go"))(t)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file := must.Get(parser.ParseFile(token.NewFileSet(), name, nil, 0))(t)
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if _, ok := spec.Type.(*ast.StructType); ok {
					want = append(want, spec.Name.Name)
				}
			}
			return true
		})
	}
	slices.Sort(have)
	slices.Sort(want)
	check.EqualSlicesf(t, have, want, "checked types")
}
