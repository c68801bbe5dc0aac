package objstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// LifecycleWarning reads the bucket's lifecycle rules. It returns a warning if a rule deletes
// objects of this store by age, or moves them to storage that cannot be read at once: seals must be
// kept permanently (rule R7). "" means no such rule, or no permission to read the rules.
func (s *S3) LifecycleWarning(ctx context.Context) string {
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.RequestTimeout, errStalled)
	defer cancel()
	out, _, err := send(ctx, opLifecycle, func(ctx context.Context) (*s3.GetBucketLifecycleConfigurationOutput, error) {
		return s.client.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: &s.options.Bucket})
	})
	if err != nil {
		return ""
	}
	var harmful []string
	for _, rule := range out.Rules {
		if rule.Status == types.ExpirationStatusEnabled && hasPrefixEitherWay(rulePrefix(rule), s.prefix) {
			if harm := ruleHarm(rule); harm != "" {
				harmful = append(harmful, fmt.Sprintf("rule %q %s", aws.ToString(rule.ID), harm))
			}
		}
	}
	if len(harmful) == 0 {
		return ""
	}
	return fmt.Sprintf("lifecycle rules of bucket %s will destroy this log: %s", s.options.Bucket, strings.Join(harmful, ", "))
}

func rulePrefix(rule types.LifecycleRule) string {
	if f := rule.Filter; f != nil {
		if f.And != nil && f.And.Prefix != nil {
			return *f.And.Prefix
		}
		if f.Prefix != nil {
			return *f.Prefix
		}
	}
	//lint:ignore SA1019 old rules have the prefix here
	return aws.ToString(rule.Prefix)
}

func ruleHarm(rule types.LifecycleRule) string {
	if e := rule.Expiration; e != nil && (e.Days != nil || e.Date != nil) {
		return "expires objects"
	}
	for _, t := range rule.Transitions {
		if t.StorageClass == types.TransitionStorageClassGlacier || t.StorageClass == types.TransitionStorageClassDeepArchive {
			return "archives objects"
		}
	}
	return ""
}

// Versioned reports whether the bucket keeps old versions of objects. It is false if the caller may not see that.
func (s *S3) Versioned(ctx context.Context) bool {
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.RequestTimeout, errStalled)
	defer cancel()
	out, _, err := send(ctx, opVersioning, func(ctx context.Context) (*s3.GetBucketVersioningOutput, error) {
		return s.client.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &s.options.Bucket})
	})
	return err == nil && out.Status == types.BucketVersioningStatusEnabled
}
