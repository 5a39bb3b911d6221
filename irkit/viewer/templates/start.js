"use strict";
begin();
