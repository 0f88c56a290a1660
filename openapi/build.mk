$(BUILD)/gen/openapi.json: openapi/build.mk
	@mkdir -p $(@D)
	printf '{"openapi":"3.1.0","info":{"title":"agent-sandbox","version":"$(VERSION)"},"paths":{}}\n' > $@
