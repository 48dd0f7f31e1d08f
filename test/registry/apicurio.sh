#!/bin/bash
# Runs the conversation of cli/schemas_real_test.go with a real schema registry: Apicurio Registry (Apache-2.0), which speaks
# the protocol of Confluent's. It comes from Maven Central, into the folder named by the argument, and keeps its data in memory.
# Needed: Java 17, Maven, curl, Go. Usage: test/registry/apicurio.sh .cache/apicurio
set -euo pipefail

version=2.6.13.Final
port=${APICURIO_PORT:-18081}
folder=$1/$version
mkdir -p "$folder"

if ! [ -e "$folder/apicurio-registry-app-$version-runner.jar" ]; then
  mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
    -Dartifact="io.apicurio:apicurio-registry-app:$version:tar.gz:all" -DoutputDirectory="$folder"
  tar -xzf "$folder/apicurio-registry-app-$version-all.tar.gz" -C "$folder"
  rm "$folder/apicurio-registry-app-$version-all.tar.gz"
fi

java -Xmx256m -Dquarkus.http.host=127.0.0.1 -Dquarkus.http.port="$port" \
  -jar "$folder/apicurio-registry-app-$version-runner.jar" >"$folder/log" 2>&1 &
registry=$!
trap 'kill $registry 2>/dev/null; wait $registry 2>/dev/null || true' EXIT

url=http://127.0.0.1:$port/apis/ccompat/v7
for _ in $(seq 240); do
  curl -fsS -m 2 "$url/subjects" >/dev/null 2>&1 && break
  kill -0 $registry 2>/dev/null || { tail -5 "$folder/log"; exit 1; }
  sleep 1
done
go test -count=1 -v -run 'TestSchemaConversation$' ./cli -args -registry "$url"
