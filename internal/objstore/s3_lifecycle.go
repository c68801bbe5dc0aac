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
// kept permanently (rule R7). "" means no such rule. An error means that the rules cannot be read,
// for example without permission. A store without lifecycle rules has none.
func (s *S3) LifecycleWarning(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.RequestTimeout, errStalled)
	defer cancel()
	out, x, err := send(ctx, opLifecycle, func(ctx context.Context) (*s3.GetBucketLifecycleConfigurationOutput, error) {
		return s.client.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: &s.options.Bucket})
	})
	if x.code == "NoSuchLifecycleConfiguration" || x.code == "NotImplemented" {
		return "", nil
	}
	if err != nil {
		return "", err
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
		return "", nil
	}
	return fmt.Sprintf("lifecycle rules of bucket %s will destroy this log: %s", s.options.Bucket, strings.Join(harmful, ", ")), nil
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

// Versioned reports whether the bucket keeps old versions of objects.
func (s *S3) Versioned(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.RequestTimeout, errStalled)
	defer cancel()
	out, x, err := send(ctx, opVersioning, func(ctx context.Context) (*s3.GetBucketVersioningOutput, error) {
		return s.client.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &s.options.Bucket})
	})
	if x.code == "NotImplemented" {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return out.Status == types.BucketVersioningStatusEnabled, nil
}
