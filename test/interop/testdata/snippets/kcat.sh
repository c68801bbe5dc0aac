kcat -b $BROKER -X security.protocol=SASL_PLAINTEXT -X sasl.mechanisms=SCRAM-SHA-512 -X sasl.username=seb -X sasl.password=$KEY -L
cat >kcat.conf <<END
bootstrap.servers=$BROKER
security.protocol=SASL_PLAINTEXT
sasl.mechanisms=SCRAM-SHA-512
sasl.username=seb
sasl.password=$KEY
END
printf 'rose=red\nlily=white\n' | kcat -F kcat.conf -P -t plants -K = -H from=kcat
kcat -F kcat.conf -C -t plants -o beginning -e -f '%k is %s, at %o of partition %p\n'
kcat -F kcat.conf -Q -t plants:0:1700000000000                         # the first offset since a time, in milliseconds
kcat -F kcat.conf -G gardeners -X auto.offset.reset=earliest -c 2 plants   # as a member of a group
